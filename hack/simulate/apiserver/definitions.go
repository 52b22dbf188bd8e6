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

package apiserver

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var definitionResource = schema.GroupResource{Group: apiextensions.GroupName, Resource: definitions}

const definitionFinalizer = apiextensionsv1.CustomResourceCleanupFinalizer

// definition is what a CustomResourceDefinition says.
type definition struct {
	name     string
	versions map[string]*rules
	// terminating is true while the CustomResourceDefinition is being deleted.
	terminating bool
}

// parsed is the typed form of a CustomResourceDefinition with its compiled schemas.
// It never changes.
type parsed struct {
	spec     *apiextensionsv1.CustomResourceDefinitionSpec
	versions map[string]*rules
}

// parse reads and compiles a CustomResourceDefinition.
func parse(object *unstructured.Unstructured) (*parsed, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, crd); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	made := &parsed{spec: &crd.Spec, versions: map[string]*rules{}}
	for i := range crd.Spec.Versions {
		served := &crd.Spec.Versions[i]
		compiled, err := newRules(served)
		if err != nil {
			where := field.NewPath("spec", "versions").Index(i).Child("schema", "openAPIV3Schema")
			return nil, apierrors.NewInvalid(object.GroupVersionKind().GroupKind(), object.GetName(),
				field.ErrorList{field.Invalid(where, "", err.Error())})
		}
		made.versions[served.Name] = compiled
	}
	return made, nil
}

// template is a CustomResourceDefinition as it is before it is created. It never
// changes.
type template struct {
	object *unstructured.Unstructured
	parsed *parsed
}

// templates keeps those of Options.CRDs: simulations use the same ones many times, and
// compiling them takes longer than a short run.
var templates sync.Map

// install creates a CustomResourceDefinition.
func (s *Server) install(crd *apiextensionsv1.CustomResourceDefinition) error {
	named := *crd
	named.APIVersion, named.Kind = apiextensionsv1.SchemeGroupVersion.String(), "CustomResourceDefinition"
	body, err := json.Marshal(&named)
	if err != nil {
		return fmt.Errorf("encoding it: %w", err)
	}
	r := &request{body: body, resource: s.resources[definitionResource], Request: Request{
		Client: internal, Verb: "create", Group: apiextensions.GroupName, Version: "v1", Resource: definitions,
	}}
	key := sha256.Sum256(body)
	found, ok := templates.Load(key)
	if !ok {
		object, err := s.decode(r)
		if err != nil {
			return err
		}
		compiled, err := parse(object)
		if err != nil {
			return err
		}
		found, _ = templates.LoadOrStore(key, &template{object: object, parsed: compiled})
	}
	known, _ := found.(*template)
	r.parsed = known.parsed
	_, err = s.createObject(r, shallow(known.object))
	s.fresh = nil
	return err
}

// prepareDefinition checks a new CustomResourceDefinition.
func prepareDefinition(r *request, object *unstructured.Unstructured) error {
	if r.parsed == nil {
		var err error
		if r.parsed, err = parse(object); err != nil {
			return err
		}
	}
	stored := []any{}
	for i := range r.parsed.spec.Versions {
		if version := &r.parsed.spec.Versions[i]; version.Storage {
			stored = append(stored, version.Name)
		}
	}
	object.Object["status"] = map[string]any{"storedVersions": stored, "acceptedNames": map[string]any{"kind": "", "plural": ""}, "conditions": []any{}}
	return nil
}

// establish serves the kind of a new CustomResourceDefinition, and says so.
func (s *Server) establish(made *revision, what *parsed) {
	established, at := &revision{object: shallow(made.object)}, s.stamp()
	names, _, _ := unstructured.NestedMap(made.object.Object, "spec", "names")
	stored, _, _ := unstructured.NestedSlice(made.object.Object, "status", "storedVersions")
	established.object.Object["status"] = map[string]any{
		"storedVersions": stored, "acceptedNames": names,
		"conditions": []any{
			condition(apiextensionsv1.NamesAccepted, "NoConflicts", "no conflicts found", at),
			condition(apiextensionsv1.Established, "InitialNamesAccepted", "the initial names have been accepted", at),
		},
	}
	r := internalRequest(s.resources[definitionResource], made, "update")
	r.Subresource = "status"
	s.commit(r, made, established)
	s.define(established, what)
}

func condition(kind apiextensionsv1.CustomResourceDefinitionConditionType, reason, message, at string) map[string]any {
	return map[string]any{"type": string(kind), "status": "True", "reason": reason, "message": message, "lastTransitionTime": at}
}

// define serves what a CustomResourceDefinition says now. Watches of the kind end, as
// they do on an API server.
func (s *Server) define(of *revision, what *parsed) {
	key := schema.GroupResource{Group: what.spec.Group, Resource: what.spec.Names.Plural}
	kind := Kind{
		Group: key.Group, Kind: what.spec.Names.Kind, Plural: key.Resource, Generation: true, Conditional: true,
		Namespaced: what.spec.Scope == apiextensionsv1.NamespaceScoped,
	}
	for i := range what.spec.Versions {
		if version := &what.spec.Versions[i]; version.Served {
			kind.Versions = append(kind.Versions, version.Name)
		}
	}
	slices.SortStableFunc(kind.Versions, byPriority)
	served := s.resources[key]
	if served == nil {
		served = s.serveKind(kind)
	} else {
		served.Kind = kind
		s.epoch++
		served.endStreams()
	}
	served.custom = &definition{name: of.object.GetName(), versions: what.versions}
	s.publish()
}

// terminateDefinition says that a CustomResourceDefinition is being deleted.
func terminateDefinition(object *unstructured.Unstructured, at string) error {
	copied := object.DeepCopy()
	conditions, _, _ := unstructured.NestedSlice(copied.Object, "status", "conditions")
	conditions = append(conditions, condition(apiextensionsv1.Terminating, "InstanceDeletionPending", "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon", at))
	if err := unstructured.SetNestedSlice(copied.Object, conditions, "status", "conditions"); err != nil {
		return fmt.Errorf("setting the conditions of %s: %w", object.GetName(), err)
	}
	object.Object["status"] = copied.Object["status"]
	return nil
}

// undefine deletes the objects of a CustomResourceDefinition that is being deleted,
// and then the CustomResourceDefinition itself.
func (s *Server) undefine(crd *revision) error {
	group, _, _ := unstructured.NestedString(crd.object.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(crd.object.Object, "spec", "names", "plural")
	served := s.resources[schema.GroupResource{Group: group, Resource: plural}]
	if served == nil || served.custom == nil {
		return nil
	}
	served.custom.terminating = true
	left, err := s.clear(served, "")
	if err != nil || left > 0 {
		return err
	}
	s.forget(served)
	return nil
}

// forget removes a CustomResourceDefinition that is being deleted once it has no
// objects, and its kind.
func (s *Server) forget(served *resource) {
	held := s.resources[definitionResource]
	crd := held.objects[types.NamespacedName{Name: served.custom.name}]
	if len(served.objects) > 0 || !served.custom.terminating || crd == nil {
		return
	}
	delete(s.resources, served.groupResource())
	s.epoch++
	s.publish()
	served.endStreams()
	s.erase(internalRequest(held, crd, "update"), crd)
}

// created, replaced and erased do what follows from writes to objects that the server
// itself understands.
func (s *Server) created(r *request, made *revision) {
	if r.GroupResource() == definitionResource && !r.isDryRun() {
		s.establish(made, r.parsed)
	}
}

func (s *Server) replaced(r *request, before, made *revision) error {
	switch {
	case r.GroupResource() != definitionResource || r.isDryRun():
	case made.object.GetDeletionTimestamp() != nil:
		return s.undefine(made)
	case made.object.GetGeneration() != before.object.GetGeneration():
		s.define(made, r.parsed)
	}
	return nil
}

func (s *Server) erased(r *request) {
	if r.resource.custom != nil && !r.isDryRun() {
		s.forget(r.resource)
	}
}
