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

// Package throttle sends fewer requests at a time when the API server rejects some of
// them, and lets the namespaces take turns. Without it, all workers of the controller
// compete for the little that an overloaded API server accepts, and an object of a small
// tenant waits as long as the thousands of a large one.
package throttle
