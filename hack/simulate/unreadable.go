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

package simulate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/simulate/apiserver"
	"github.com/karmada-direct/karmada-direct/hack/simulate/karmada"
)

// outage is what the controller cannot do with a kind, and why, until it is repaired.
type outage struct {
	verbs     []string
	forbidden bool
}

// outages are those that happen. The controller needs no watch as long as it can read,
// unless somebody has forbidden it.
var outages = []outage{
	{verbs: []string{"get", "list", "watch"}, forbidden: true},
	{verbs: []string{"list", "watch"}, forbidden: true},
	{verbs: []string{"watch"}, forbidden: true},
	{verbs: []string{"get", "list", "watch"}},
	{verbs: []string{"list", "watch"}},
	{verbs: []string{"list", "watch"}},
}

// readKinds are the kinds that may be read or not.
var readKinds = []schema.GroupResource{
	{Resource: "configmaps"}, {Group: "apps", Resource: "deployments"}, {Group: widgetKind.Group, Resource: widgetKind.Plural},
	{Group: clusterRoleKind.Group, Resource: clusterRoleKind.Plural},
}

// resourceOf is where objects of a kind are read.
func resourceOf(key karmada.Key) schema.GroupResource {
	for _, resource := range readKinds {
		if resource.Group == key.Group && resource.Resource == strings.ToLower(key.Kind)+"s" {
			return resource
		}
	}
	return schema.GroupResource{}
}

// hinder keeps the controller from reading a kind, and mostly changes a resource of this
// kind then.
func (u *users) hinder(ctx context.Context) (string, error) {
	resource, what := u.breakKind()
	for _, reference := range slices.Concat(resources, roles) {
		object := named(reference, namespace)
		if slices.Contains(roles, reference) {
			object = named(reference, "")
		}
		if resourceOf(karmada.KeyOf(object)) != resource || u.w.choices.oneIn(4) {
			continue
		}
		if err := u.changed(ctx, object, func() error { return u.filled(object) }); err != nil && !isRefusal(err) {
			return what, err
		}
	}
	return what, nil
}

// breakKind keeps the controller from reading a kind.
func (u *users) breakKind() (schema.GroupResource, string) {
	resource, chosen := oneOf(u.w.choices, readKinds), oneOf(u.w.choices, outages)
	u.w.outages[resource] = &chosen
	for _, stream := range u.w.server.Streams() {
		if isController(stream.Client) && stream.GroupResource() == resource && slices.Contains(chosen.verbs, stream.Verb) {
			stream.Cut()
		}
	}
	if chosen.forbidden {
		return resource, fmt.Sprintf("forbids the controller to %v %s, and changes some", chosen.verbs, resource)
	}
	return resource, fmt.Sprintf("breaks what the controller needs to %v %s, and changes some", chosen.verbs, resource)
}

// unhinder lets the controller read all kinds again.
func (u *users) unhinder(context.Context) (string, error) {
	if len(u.w.outages) == 0 {
		return "", nil
	}
	clear(u.w.outages)
	return "lets the controller read all kinds", nil
}

// refusal is what a request of the controller gets because of an outage; nil for none.
func (w *World) refusal(call *apiserver.Call) apierrors.APIStatus {
	resource := call.GroupResource()
	if resource.Group == widgetKind.Group {
		resource.Resource = widgetKind.Plural // it has several
	}
	broken := w.outages[resource]
	switch {
	case w.noStatus && isController(call.Client) && call.Resource == "deployments" && call.Subresource == "status" && writes(call):
		return apierrors.NewForbidden(resource, call.Name, errNoPermission)
	case broken == nil || !isController(call.Client) || !slices.Contains(broken.verbs, call.Verb):
		return nil
	case broken.forbidden:
		return apierrors.NewForbidden(resource, call.Name, errNoPermission)
	}
	return apierrors.NewInternalError(errBroken)
}

// unreadable says that the controller cannot read a resource.
const unreadable = "its resource cannot be read"

// explainsOutage checks that an object whose resource cannot be read says so, unless
// something else is wrong.
func explainsOutage(title string, ready *metav1.Condition) error {
	known := ready.Reason == propagationv1alpha1.ReasonResourceReadFailed
	if (ready.Status == metav1.ConditionUnknown) != known || ready.Status == metav1.ConditionTrue {
		return violated("wrong conditions", "%s is %s %s, although %s", title, ready.Status, ready.Reason, unreadable)
	}
	return nil
}

// isUnreadable reports whether the controller cannot know what a resource is now.
func (w *World) isUnreadable(key karmada.Key) bool {
	broken := w.outages[resourceOf(key)]
	return broken != nil && (broken.forbidden || slices.Contains(broken.verbs, "get"))
}
