/*
Copyright The Karmada Direct Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package main

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTokenIsRenewedAfterAQuarterOfItsLife(t *testing.T) {
	if got, want := (claims{Issued: 1000, Expires: 5000}).due(), time.Unix(2000, 0); !got.Equal(want) {
		t.Errorf("due at %v, want %v", got, want)
	}
}

func TestOnlyTokensOfServiceAccountsAreRenewed(t *testing.T) {
	for content, want := range map[string]string{
		"opaque": "does not contain a ServiceAccount token",
		"a.!.c":  "does not contain a ServiceAccount token",
		encoded(`{"sub":"jane","iat":1,"exp":2}`):                                `the token of "jane", from 1 to 2, cannot be renewed`,
		encoded(`{"sub":"system:serviceaccount:karmada-system:karmada-direct"}`): "from 0 to 0, cannot be renewed", // it never expires
		encoded(`{"sub":"system:serviceaccount:a:b","iat":1,"exp":2}`):           "",
	} {
		file := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := readClaims(file)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: error %v, want one with %q", content, err, want)
		}
	}
}

func encoded(payload string) string {
	return "header." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".signature"
}
