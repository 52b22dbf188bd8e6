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
	"fmt"
	"regexp"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	"github.com/karmada-direct/karmada-direct/controllers/legible"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// manifestsPrefix is what Karmada puts in front of the cluster's message. Works of
// this controller have one manifest.
var manifestsPrefix = regexp.MustCompile(`^Failed to apply all manifests \(\d+/\d+\): `)

// remedies are what to do about refusals, by the message of Karmada or of the
// cluster. The first match applies. If the text ends in a colon, the original
// message follows it, because that may be cut. ${1} and so on are the groups of the
// pattern.
var remedies = []struct {
	said   *regexp.Regexp
	remedy string
}{
	{regexp.MustCompile(`resource\(kind=([^,]+), [^/]*/([^)]+)\) already exists in the cluster \S+ and the \S+ strategy value is empty`),
		"the cluster already has a ${1} ${2} that Karmada does not manage; to take it over, set spec.conflictResolution: Overwrite"},
	{regexp.MustCompile(`unable to create new content in namespace (\S+) because it is being terminated`),
		"namespace ${1} is being deleted on the cluster; wait until it is gone, or find out what holds it:"},
	{regexp.MustCompile(`^namespaces "([^"]+)" not found`),
		"the cluster has no namespace ${1}; propagate the namespace, or create it there:"},
	{regexp.MustCompile(`no matches for kind "([^"]+)" in version "([^"]+)"`),
		"Karmada finds no API for ${2} ${1}; install it in the control plane and on the cluster:"},
	{regexp.MustCompile(`^the server could not find the requested resource`),
		"the cluster does not serve the kind in this version; install its API there:"},
	{regexp.MustCompile(`is forbidden: exceeded quota: ([^,\s]+)`),
		"ResourceQuota ${1} on the cluster is exhausted; raise it there, or ask for less:"},
	{regexp.MustCompile(`is forbidden: failed quota: ([^:\s]+): must specify`),
		"ResourceQuota ${1} on the cluster wants values that the resource lacks; set them:"},
	{regexp.MustCompile(`is forbidden: User "([^"]+)" cannot (\S+) resource "([^"]+)"`),
		"Karmada's credentials lack the right to ${2} ${3} on the cluster; grant it there to ${1}:"},
	{regexp.MustCompile(`is forbidden: user "([^"]+)".* is attempting to grant RBAC permissions not currently held`),
		"Karmada's credentials lack permissions that the resource grants on the cluster; grant them there to ${1}:"},
	{regexp.MustCompile(`admission webhook "([^"]+)" denied the request`),
		"admission webhook ${1} of the cluster denies it; change the resource or the webhook's policy:"},
	{regexp.MustCompile(`failed calling webhook "([^"]+)"`),
		"admission webhook ${1} of the cluster does not answer; repair it there:"},
	{regexp.MustCompile(`ValidatingAdmissionPolicy '([^']+)' with binding '[^']+' denied request`),
		"ValidatingAdmissionPolicy ${1} of the cluster denies it; change the resource or the policy:"},
	{regexp.MustCompile(`is forbidden: violates PodSecurity "([^"]+)"`),
		"Pod Security Standard ${1} of the namespace on the cluster forbids it; change the resource or the namespace's labels:"},
	{regexp.MustCompile(` is invalid: .*(?:immutable|may not change once set|[Ff]orbidden: updates to |spec: Forbidden: .* updates may not change)`),
		"the cluster cannot change an immutable field; undo the change, or, unless it holds data, delete the resource and create it anew:"},
	{regexp.MustCompile(` is invalid: `),
		"the cluster rejects the resource as invalid; correct the field:"},
}

// withoutAnswer is how the client of Kubernetes begins the error of a request without an answer,
// or with one that breaks off.
var withoutAnswer = regexp.MustCompile(`^((Get|Post|Put|Patch) "https?://|(stream|unexpected) error when reading response body)`)

// isWithoutAnswer reports whether Karmada has had no answer from a cluster: the cluster may have
// done what it was asked for.
func isWithoutAnswer(message string) bool {
	return withoutAnswer.MatchString(manifestsPrefix.ReplaceAllString(message, ""))
}

// refusal explains why a cluster refuses a Work, and what to do.
func refusal(observed *Observed, work *workv1alpha1.Work, message string) string {
	said := manifestsPrefix.ReplaceAllString(message, "")
	supersedes, replaceable := render.Supersedes(work)
	if supersedes && !replaceable && isRefusedAsInvalid(observed.Now, work) {
		return fmt.Sprintf("the cluster has the %s of the deleted resource, which cannot change into the new one and may hold data, so it is not replaced; delete it on the cluster, or take the cluster off the object and add it again: %s",
			observed.Spec.Resource.Kind, said)
	}
	return remedied(said)
}

// remedied puts the remedy in front of the cluster's message.
func remedied(said string) string {
	said = legible.Text(said)
	for _, known := range remedies {
		groups := known.said.FindStringSubmatchIndex(said)
		if groups == nil {
			continue
		}
		remedy := string(known.said.ExpandString(nil, known.remedy, said, groups))
		if known.remedy[len(known.remedy)-1] == ':' {
			remedy += " " + said
		}
		return remedy
	}
	return said
}
