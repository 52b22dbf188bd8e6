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

package revision

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
)

func aSnapshot() *Snapshot {
	return &Snapshot{
		Input:      &Input{Resource: []byte(`{"kind":"ConfigMap"}`), Origin: Origin{UID: "uid", Generation: 3}},
		Renderings: map[string]*Rendering{"": {Object: []byte(`{"kind":"ConfigMap"}`), Hash: "one"}, "east": {Reason: "OverrideFailed", Message: "no such path"}},
		Clusters:   map[string]string{"member1": "", "member2": "east"},
	}
}

// What is encoded is decoded, byte for byte the same each time.
func TestSnapshotIsDecoded(t *testing.T) {
	data, sum, err := aSnapshot().Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, _, _ := aSnapshot().Encode()
	if !bytes.Equal(data, again) {
		t.Error("the same snapshot is encoded differently")
	}
	decoded, err := Decode(data, sum)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(aSnapshot(), decoded); diff != "" {
		t.Errorf("(-encoded +decoded):\n%s", diff)
	}
}

// Data without its digest, and data that is no snapshot, are errors.
func TestDecodeRejects(t *testing.T) {
	data, sum, err := aSnapshot().Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Decode(append(bytes.Clone(data), 0), sum); err == nil {
		t.Error("data that was changed is decoded")
	}
	packed := &bytes.Buffer{}
	writer := gzip.NewWriter(packed)
	_, _ = writer.Write([]byte("[]"))
	_ = writer.Close()
	for name, wrong := range map[string][]byte{"empty": {}, "text": []byte("text"), "cut": data[:len(data)/2], "a list": packed.Bytes()} {
		if _, err := Decode(wrong, digest(wrong)); err == nil {
			t.Errorf("%s: decoded", name)
		}
	}
}

// A snapshot that does not fit into an object is an error.
func TestEncodeRefusesWhatIsTooLarge(t *testing.T) {
	large := aSnapshot()
	random := make([]byte, 2*MaxSize)
	_, _ = rand.Read(random)
	large.Renderings[""].Message = string(bytes.ToValidUTF8(random, []byte("?")))
	if _, _, err := large.Encode(); !errors.Is(err, ErrTooLarge) {
		t.Errorf("the error is %v", err)
	}
}

// An outline has everything but content.
func TestOutlineHasNoContent(t *testing.T) {
	outline := aSnapshot().Outline()
	template, err := aSnapshot().Input.Template()
	if err != nil || template.GetUID() != "uid" || template.GetGeneration() != 3 {
		t.Errorf("the template is %v (%v)", template, err)
	}
	if outline.Input != nil || outline.Renderings[""].Object != nil || outline.Renderings[""].Size == 0 {
		t.Errorf("outline: %+v, %+v", outline, outline.Renderings[""])
	}
	if outline.HashOn("member1") != "one" || outline.HashOn("member2") != "" || outline.HashOn("stranger") != "" {
		t.Errorf("hashes: %q, %q, %q", outline.HashOn("member1"), outline.HashOn("member2"), outline.HashOn("stranger"))
	}
}

// Only what a user asks for, on the clusters that count, makes another revision.
func TestHashIsOfWhatUsersAskFor(t *testing.T) {
	everything := func(string) bool { return true }
	hash := func(change func(*Input), counts func(string) bool) string {
		t.Helper()
		input := &Input{Resource: []byte(`{"kind":"ConfigMap"}`), Overriders: map[string]*policyv1alpha1.Overriders{"member1": {}}, Policies: []Policy{{Name: "one"}}}
		change(input)
		template, err := input.Template()
		if err != nil {
			t.Fatal(err)
		}
		sum, err := input.Hash(map[string]any{"kind": template.GetKind()}, counts)
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	same := hash(func(*Input) {}, everything)
	for name, change := range map[string]func(*Input){
		"origin": func(input *Input) { input.Origin = Origin{UID: "another", Generation: 7} },
	} {
		if got := hash(change, everything); got != same {
			t.Errorf("%s makes another revision", name)
		}
	}
	for name, change := range map[string]func(*Input){
		"resource":   func(input *Input) { input.Resource = []byte(`{"kind":"Secret"}`) },
		"resolution": func(input *Input) { input.Resolution = "Overwrite" },
		"policies": func(input *Input) {
			input.Policies[0].Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{Kind: "ConfigMap"}}
		},
		"overriders": func(input *Input) { input.Overriders["member2"] = &policyv1alpha1.Overriders{} },
	} {
		if got := hash(change, everything); got == same {
			t.Errorf("%s makes no other revision", name)
		}
	}
	notMember2 := func(cluster string) bool { return cluster != "member2" }
	if got := hash(func(input *Input) { input.Overriders["member2"] = &policyv1alpha1.Overriders{} }, notMember2); got != same {
		t.Error("overriders of a cluster that does not count make another revision")
	}
}

// What the API server and controllers set is not part of a resource, which stays as it is.
func TestBare(t *testing.T) {
	resource := &unstructured.Unstructured{Object: map[string]any{
		"kind":   "ConfigMap",
		"status": map[string]any{"ready": true},
		"metadata": map[string]any{
			"name": "settings", "uid": "uid", "resourceVersion": "7", "generation": int64(2),
			"annotations": map[string]any{lastApplied: "{}", "mine": "yes"},
		},
	}}
	before := resource.DeepCopy()
	bare, err := Bare(resource)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(`{"kind":"ConfigMap","metadata":{"annotations":{"mine":"yes"},"name":"settings"}}`, string(bare)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, resource); diff != "" {
		t.Errorf("the resource was changed:\n%s", diff)
	}
}

// Decode never panics, and what it accepts has the digest.
func FuzzDecode(f *testing.F) {
	data, _, err := aSnapshot().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte("text"))
	f.Fuzz(func(_ *testing.T, data []byte) { _, _ = Decode(data, digest(data)) })
}
