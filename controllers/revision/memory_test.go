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

package revision_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/karmada-direct/karmada-direct/controllers/revision"
)

// BenchmarkOutline measures the memory that an object on 5,000 clusters has in addition if
// it has a rollout: the outlines of three revisions, each decoded from what was stored. The
// metric is per cluster; BenchmarkCachedWork of controllers/render has that of a Work.
func BenchmarkOutline(b *testing.B) {
	const objects, clusters, revisions, variants = 20, 5000, 3, 4
	snapshot := &revision.Snapshot{Renderings: map[string]*revision.Rendering{}, Clusters: map[string]string{}}
	for i := range variants {
		snapshot.Renderings[fmt.Sprint(i)] = &revision.Rendering{Object: []byte(`{"kind":"ConfigMap"}`), Hash: fmt.Sprintf("%016x", i)}
	}
	for i := range clusters {
		snapshot.Clusters[fmt.Sprintf("cluster-%04d", i)] = fmt.Sprint(i % variants)
	}
	data, digest, err := snapshot.Encode()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		kept := make([]*revision.Snapshot, 0, objects*revisions)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for range objects * revisions {
			decoded, err := revision.Decode(data, digest)
			if err != nil {
				b.Fatal(err)
			}
			kept = append(kept, decoded.Outline())
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/objects/clusters, "B/cluster")
		runtime.KeepAlive(kept)
	}
}
