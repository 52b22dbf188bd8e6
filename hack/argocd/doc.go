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

// Package argocd tests the scripts of docs/argocd in the same Lua environment that
// Argo CD gives to users' scripts: without the libraries for strings, files and the
// like, and with a limit in place of Argo CD's one second. The test cases are next
// to the scripts, in the format of Argo CD's own repository.
package argocd
