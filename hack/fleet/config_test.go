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
	"slices"
	"strings"
	"testing"
)

func TestParseMembers(t *testing.T) {
	for _, test := range []struct {
		in      string
		want    []Member
		wantErr string
	}{
		{in: defaultMembers, want: []Member{{Name: "member1", Mode: Push}, {Name: "member2", Mode: Pull}}},
		{in: "a, b=pull", want: []Member{{Name: "a", Mode: Push}, {Name: "b", Mode: Pull}}},
		{in: "", wantErr: "lowercase letters"},
		{in: "A=push", wantErr: "lowercase letters"},
		{in: "a-", wantErr: "lowercase letters"},
		{in: "../a", wantErr: "lowercase letters"},
		{in: strings.Repeat("a", 49), wantErr: "at most 48"},
		{in: "a,a=pull", wantErr: "listed twice"},
		{in: "a=poll", wantErr: "want mode push or pull"},
		{in: "karmada", wantErr: "reserved for processes of the control plane"},
		{in: "etcd=pull", wantErr: "reserved for processes of the control plane"},
		{in: "argocd", wantErr: "reserved for processes of the control plane"},
	} {
		t.Run(test.in, func(t *testing.T) {
			got, err := parseMembers(test.in)
			checkError(t, err, test.wantErr)
			if !slices.Equal(got, test.want) {
				t.Errorf("members = %v, want %v", got, test.want)
			}
		})
	}
}

func TestFormatMembersReadsBack(t *testing.T) {
	members, err := parseMembers("a=push,b=pull")
	if err != nil {
		t.Fatal(err)
	}
	if got := formatMembers(members); got != "a=push,b=pull" {
		t.Errorf("formatMembers = %q", got)
	}
}

func TestParseComponentArgs(t *testing.T) {
	for _, test := range []struct {
		in      string
		want    []ComponentArg
		wantErr string
	}{
		{in: "etcd=--a=b=c", want: []ComponentArg{{"etcd", "--a=b=c"}}},
		{in: "kube-apiserver=-v=4", want: []ComponentArg{{"kube-apiserver", "-v=4"}}},
		{in: "etcd", wantErr: "want COMPONENT=--flag=value"},
		{in: "=--a", wantErr: "want COMPONENT=--flag=value"},
		{in: "etcd=a", wantErr: "want COMPONENT=--flag=value"},
	} {
		t.Run(test.in, func(t *testing.T) {
			got, err := parseComponentArgs([]string{test.in})
			checkError(t, err, test.wantErr)
			if !slices.Equal(got, test.want) {
				t.Errorf("arguments = %v, want %v", got, test.want)
			}
		})
	}
}

func checkError(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("unexpected error: %v", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("error = %v, want one that contains %q", err, want)
	}
}
