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
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// Snapshot is what a revision was rendered to. It is immutable once it is stored.
type Snapshot struct {
	// Input is what the user asked for; nil if the snapshot was made from the Works that
	// clusters had before the first rollout.
	Input *Input `json:"input,omitempty"`
	// Adopted: there is no input. The outline of a snapshot has none in any case.
	Adopted bool `json:"adopted,omitempty"`
	// Dependencies are the dependencies of the resource.
	Dependencies []configv1alpha1.DependentObjectReference `json:"dependencies,omitempty"`
	// Renderings are, by variant, what clusters get.
	Renderings map[string]*Rendering `json:"renderings"`
	// Clusters are, by cluster, the variants that the clusters get. Other clusters came
	// later.
	Clusters map[string]string `json:"clusters"`
	// Joined are, by cluster that came later, the overriders with which it came. They are
	// not stored.
	Joined map[string]*policyv1alpha1.Overriders `json:"-"`
}

// Rendering is what the clusters of a variant get.
type Rendering struct {
	// Object is the manifest, without what differs between the Works of clusters. The
	// outline of a snapshot has only its size, in bytes.
	Object json.RawMessage `json:"object,omitempty"`
	Size   int             `json:"-"`
	// Hash identifies the object apart from its replicas, unless overrides set those.
	Hash string `json:"hash,omitempty"`
	// FixedReplicas: overrides set the replicas.
	FixedReplicas bool `json:"fixedReplicas,omitempty"`
	// Resolution is the conflict resolution.
	Resolution propagationv1alpha1.ConflictResolution `json:"resolution,omitempty"`
	// Overrides records the override policies that were applied.
	Overrides map[string]string `json:"overrides,omitempty"`
	// Reason, Message and Field explain why there is no object.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Field   string `json:"field,omitempty"`
}

// Outline is a copy of the snapshot without content.
func (s *Snapshot) Outline() *Snapshot {
	outline := &Snapshot{Adopted: s.Adopted, Dependencies: s.Dependencies, Clusters: s.Clusters, Renderings: make(map[string]*Rendering, len(s.Renderings))}
	for name, rendering := range s.Renderings {
		bare := *rendering
		bare.Object, bare.Size = nil, len(rendering.Object)
		outline.Renderings[name] = &bare
	}
	return outline
}

// HashOn identifies what a cluster gets; empty if that is not known.
func (s *Snapshot) HashOn(cluster string) string {
	if s == nil {
		return ""
	}
	variant, found := s.Clusters[cluster]
	if rendering := s.Renderings[variant]; found && rendering != nil {
		return rendering.Hash
	}
	return ""
}

// FixesReplicasOn reports whether overrides set the replicas on a cluster.
func (s *Snapshot) FixesReplicasOn(cluster string) bool {
	if s == nil {
		return false
	}
	rendering := s.Renderings[s.Clusters[cluster]]
	return rendering != nil && rendering.FixedReplicas
}

// MaxSize is the maximum size in bytes of a stored snapshot.
const MaxSize = 1 << 20

// ErrNotTrusted means that a stored snapshot is not what this controller has stored.
var ErrNotTrusted = errors.New("it is not what the controller has stored")

// ErrTooLarge means that a snapshot does not fit into an object.
var ErrTooLarge = errors.New("larger than 1 MiB, compressed")

// Encode compresses a snapshot, and returns its digest, too. It returns ErrTooLarge if the
// result is too large to be stored.
func (s *Snapshot) Encode() (data []byte, sum string, err error) {
	content, err := json.Marshal(s)
	if err != nil {
		return nil, "", fmt.Errorf("encoding a revision: %w", err)
	}
	buffer := &bytes.Buffer{}
	compressed := gzip.NewWriter(buffer)
	if _, err := compressed.Write(content); err != nil {
		return nil, "", fmt.Errorf("compressing a revision: %w", err)
	}
	if err := compressed.Close(); err != nil {
		return nil, "", fmt.Errorf("compressing a revision: %w", err)
	}
	if buffer.Len() > MaxSize {
		return nil, "", ErrTooLarge
	}
	return buffer.Bytes(), digest(buffer.Bytes()), nil
}

// maxContent limits how many bytes Decode reads: a few kilobytes can decompress to any
// size.
const maxContent = 256 << 20

// Decode returns the snapshot in data that has a digest.
func Decode(data []byte, sum string) (*Snapshot, error) {
	if digest(data) != sum {
		return nil, errors.New("its data does not have its digest")
	}
	compressed, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("decompressing a revision: %w", err)
	}
	snapshot := &Snapshot{}
	if err := json.NewDecoder(io.LimitReader(compressed, maxContent)).Decode(snapshot); err != nil {
		return nil, fmt.Errorf("decoding a revision: %w", err)
	}
	return snapshot, nil
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func comparePolicies(a, b Policy) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// Name names a snapshot that was taken from Works by what they hold.
func (s *Snapshot) Name() (string, error) {
	hashes := make(map[string]string, len(s.Clusters))
	for cluster := range s.Clusters {
		hashes[cluster] = s.HashOn(cluster)
	}
	return hashOf(hashes)
}
