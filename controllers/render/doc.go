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

// Package render turns a resource of the control plane into Works. It is the only
// place that builds Works, and it is pure: the same input gives the same Work, and a
// Work that is already right renders to itself.
//
// Karmada's execution and status controllers, which act by convention rather than by
// reference, dictate what a Work must be:
//
//   - its name is names.GenerateWorkName: when an object vanishes from a
//     member, Karmada finds the Work to re-create it from by that name alone;
//   - it holds one manifest, because its status keeps one entry;
//   - it has Karmada's finalizer from the start, or deleting it would leave the
//     object on the member;
//   - the manifest is labeled and annotated as Karmada's own binding
//     controller does, or updates, deletions, drift repair and status
//     collection silently skip it;
//   - the manifest is pruned as Karmada's webhook prunes it, or every
//     comparison with the live Work would find a difference.
//
// A cache does not need payloads: Compact reduces a Work to the revision of its
// manifest, which is enough to see whether the Work is right.
package render
