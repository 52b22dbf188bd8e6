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

package decide

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	"github.com/karmada-direct/karmada-direct/controllers/legible"
)

const karmadasUser = "system:serviceaccount:karmada-cluster:karmada-member1"

// refusalCases are messages of Karmada and of clusters, and the resulting message of
// a row.
var refusalCases = map[string]struct {
	said, want string
	// alone: what was said is left out.
	alone bool
}{
	"already there": {`resource(kind=ConfigMap, shop/settings) already exists in the cluster member1 and the work.karmada.io/conflict-resolution strategy value is empty, Karmada will not manage this resource`,
		"the cluster already has a ConfigMap settings that Karmada does not manage; to take it over, set spec.conflictResolution: Overwrite", true},
	"already there, no namespace": {`resource(kind=ClusterRole, /viewer) already exists in the cluster member1 and the work.karmada.io/conflict-resolution strategy value is empty, Karmada will not manage this resource`,
		"the cluster already has a ClusterRole viewer that Karmada does not manage; to take it over, set spec.conflictResolution: Overwrite", true},
	"no namespace":      {`namespaces "shop" not found`, "the cluster has no namespace shop; propagate the namespace, or create it there:", false},
	"namespace goes":    {`configmaps "settings" is forbidden: unable to create new content in namespace shop because it is being terminated`, "namespace shop is being deleted on the cluster; wait until it is gone, or find out what holds it:", false},
	"no API in Karmada": {`no matches for kind "Widget" in version "example.org/v1"`, "Karmada finds no API for example.org/v1 Widget; install it in the control plane and on the cluster:", false},
	"no API there":      {`the server could not find the requested resource`, "the cluster does not serve the kind in this version; install its API there:", false},
	"quota": {`pods "web" is forbidden: exceeded quota: compute, requested: requests.cpu=2, used: requests.cpu=9, limited: requests.cpu=10`,
		"ResourceQuota compute on the cluster is exhausted; raise it there, or ask for less:", false},
	"quota wants values": {`pods "web" is forbidden: failed quota: compute: must specify requests.cpu for: main`, "ResourceQuota compute on the cluster wants values that the resource lacks; set them:", false},
	"no right": {`configmaps "settings" is forbidden: User "` + karmadasUser + `" cannot update resource "configmaps" in API group "" in the namespace "shop"`,
		"Karmada's credentials lack the right to update configmaps on the cluster; grant it there to " + karmadasUser + ":", false},
	"escalation": {`roles.rbac.authorization.k8s.io "all" is forbidden: user "` + karmadasUser + `" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held: {APIGroups:["*"]}`,
		"Karmada's credentials lack permissions that the resource grants on the cluster; grant them there to " + karmadasUser + ":", false},
	"webhook":      {`admission webhook "validate.example.org" denied the request: no latest tags`, "admission webhook validate.example.org of the cluster denies it; change the resource or the webhook's policy:", false},
	"webhook gone": {`Internal error occurred: failed calling webhook "validate.example.org": Post "https://x": connection refused`, "admission webhook validate.example.org of the cluster does not answer; repair it there:", false},
	"policy": {`configmaps "settings" is forbidden: ValidatingAdmissionPolicy 'tags' with binding 'tags' denied request: not welcome`,
		"ValidatingAdmissionPolicy tags of the cluster denies it; change the resource or the policy:", false},
	"Pod security": {`pods "web" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false`,
		"Pod Security Standard restricted:latest of the namespace on the cluster forbids it; change the resource or the namespace's labels:", false},
	"immutable ConfigMap": {"ConfigMap \"settings\" is invalid: data: Forbidden: field is immutable when `immutable` is set",
		"the cluster cannot change an immutable field; undo the change, or, unless it holds data, delete the resource and create it anew:", false},
	"immutable in a StatefulSet": {`StatefulSet.apps "db" is invalid: spec: Forbidden: updates to statefulset spec for fields other than 'replicas' are forbidden`,
		"the cluster cannot change an immutable field; undo the change, or, unless it holds data, delete the resource and create it anew:", false},
	"invalid": {`Deployment.apps "web" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0`, "the cluster rejects the resource as invalid; correct the field:", false},
	"other":   {`context deadline exceeded`, "", false},
	"broken":  {"\x1b[31mno\x1b[0m\nway\u202e", "no way", true},
}

// Messages of rows begin with the remedy, which the limit of a row does not cut off.
func TestRefusals(t *testing.T) {
	for name, tc := range refusalCases {
		t.Run(name, func(t *testing.T) {
			want := tc.want
			if !tc.alone {
				want = strings.TrimSpace(tc.want + " " + tc.said)
			}
			failure := metav1.Condition{Type: failed.Type, Status: failed.Status, LastTransitionTime: failed.LastTransitionTime, Message: "Failed to apply all manifests (0/1): " + tc.said}
			row := statusOf(scene([]string{"member1"}, on("member1", conditions(dispatched, failure))), Outcome{}).Clusters[0]
			if row.Message != legible.ForRow(want) {
				t.Errorf("got  %s\nwant %s", row.Message, legible.ForRow(want))
			}
			if !strings.HasPrefix(row.Message, tc.want) {
				t.Errorf("the cut takes from the remedy: %s", row.Message)
			}
		})
	}
}

// A refusal that Karmada reports when it re-creates an object has no prefix.
func TestRefusalWithoutPrefix(t *testing.T) {
	if got, want := refusal(scene(nil), &workv1alpha1.Work{}, `namespaces "shop" not found`), "the cluster has no namespace shop;"; !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
