//go:build faults

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

package faults

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// installs installs a kind on control planes and waits until they serve it. The kind
// is removed when the test ends, if not before.
func (ns *Namespace) installs(kind *apiextensionsv1.CustomResourceDefinition, planes ...client.Client) {
	ns.T.Helper()
	ns.T.Cleanup(func() { ns.Uninstalls(kind, planes...) })
	ns.Installs(kind, planes...)
}
