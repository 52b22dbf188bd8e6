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

package propagation

import (
	"sync"

	"github.com/karmada-direct/karmada-direct/controllers/dependency"
)

// backlog counts the Works that Karmada has yet to report on. Objects of all kinds share it,
// because they share Karmada. The zero value is empty.
type backlog struct {
	mu       sync.Mutex
	byObject map[dependency.Requirer]int
	works    int
}

// awaits records how many reports an object waits for.
func (b *backlog) awaits(object dependency.Requirer, works int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.works += works - b.byObject[object]
	if works == 0 {
		delete(b.byObject, object)
		return
	}
	if b.byObject == nil {
		b.byObject = map[dependency.Requirer]int{}
	}
	b.byObject[object] = works
}

// size returns how many reports all objects wait for.
func (b *backlog) size() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.works
}
