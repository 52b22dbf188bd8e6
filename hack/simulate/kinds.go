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
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/karmada-direct/karmada-direct/hack/simulate/karmada"
)

// plurals are what the resource of Widgets may be called.
var plurals = []string{widgetKind.Plural, "widgetry"}

// unserved says that nothing serves the version of a kind that an object names.
const unserved = "its kind is not served"

// misplaced says that a kind has another scope than an object needs.
const misplaced = "its kind is not in namespaces"

func (w *World) isMisplaced(key karmada.Key) bool {
	return key.GroupVersionKind == widgetKind.GroupVersionKind && w.users.scope == apiextensionsv1.ClusterScoped
}

// isServed reports whether the control plane serves the version of Widgets that objects
// name. It serves all other kinds.
func (w *World) isServed(key karmada.Key) bool {
	if key.GroupVersionKind != widgetKind.GroupVersionKind {
		return true
	}
	definition := w.users.widgetDefinition()
	if w.plane.Get(context.Background(), keyOf(definition), definition) != nil {
		return false
	}
	return definition.Spec.Versions[0].Served
}

// redefine replaces the definition of Widgets by one with another plural, or with another
// scope, and creates a Widget if it is still in a namespace.
func (u *users) redefine(ctx context.Context) (string, error) {
	if err := u.w.plane.Delete(ctx, u.widgetDefinition()); err != nil && !apierrors.IsNotFound(err) {
		return "deletes the definition of Widgets", err //nolint:wrapcheck // act wraps it
	}
	switch u.w.choices.below(4) {
	case 0:
		u.scope = apiextensionsv1.ClusterScoped
		return "has Widgets be outside of namespaces", u.w.plane.Create(ctx, u.widgetDefinition()) //nolint:wrapcheck // act wraps it
	case 1:
		u.scope = apiextensionsv1.NamespaceScoped
	default:
		u.scope, u.plural = apiextensionsv1.NamespaceScoped, oneOf(u.w.choices, plurals)
	}
	what, err := u.restoreKind(ctx)
	return fmt.Sprintf("calls Widgets %s, and %s", u.plural, what), err
}

// redefineAndRestart does so, and a new process of the controller finds discovery that is
// late.
func (u *users) redefineAndRestart(ctx context.Context) (string, error) {
	what, err := u.redefine(ctx)
	if err != nil {
		return what, err
	}
	if err := u.w.crash(ctx); err != nil {
		return what, err
	}
	return what, u.w.undisturbed(ctx, 3*time.Second, false, never)
}

// changeVersion has the definition of Widgets no longer serve the version that objects
// name, but a later one; or both.
func (u *users) changeVersion(ctx context.Context) (string, error) {
	definition := u.widgetDefinition()
	if err := u.w.plane.Get(ctx, keyOf(definition), definition); err != nil {
		return "changes the version of Widgets", err //nolint:wrapcheck // act wraps it
	}
	versions := definition.Spec.Versions
	if len(versions) == 1 {
		later := *versions[0].DeepCopy()
		later.Name, later.Storage = "v2", false
		versions = append(versions, later)
	}
	versions[0].Served = !versions[0].Served
	definition.Spec.Versions = versions
	return fmt.Sprintf("has %s of Widgets served: %t", versions[0].Name, versions[0].Served), u.w.plane.Update(ctx, definition) //nolint:wrapcheck // act wraps it
}

// restoreVersion has the version served that objects name.
func (u *users) restoreVersion(ctx context.Context) (string, error) {
	if u.w.isServed(karmada.Key{GroupVersionKind: widgetKind.GroupVersionKind}) {
		return "", nil
	}
	return u.changeVersion(ctx)
}
