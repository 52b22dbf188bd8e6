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
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func formatVersion(version int64) string { return strconv.FormatInt(version, 10) }

// commit makes a write take effect: made replaces before, which is nil for a new
// object.
func (s *Server) commit(r *request, before, made *revision) {
	if r.isDryRun() {
		return
	}
	made.became(s.version + 1)
	key := keyOf(made.object)
	r.resource.objects[key] = made
	s.happened(r, change{version: made.version, key: key, before: before, after: made})
}

// erase makes a deletion take effect.
func (s *Server) erase(r *request, last *revision) {
	if r.isDryRun() {
		return
	}
	key, gone := keyOf(last.object), last.withVersion(s.version+1)
	delete(r.resource.objects, key)
	s.happened(r, change{version: gone.version, key: key, before: last, after: gone, gone: true})
}

// happened records a write that took effect.
func (s *Server) happened(r *request, changed change) {
	s.version = changed.version
	r.resource.history = append(r.resource.history, changed)
	for _, stream := range r.resource.streams {
		stream.show(changed)
	}
	wrote := Write{Request: r.Request, Body: r.body, ResourceVersion: changed.version, At: s.now()}
	wrote.Namespace, wrote.Name = changed.key.Namespace, changed.key.Name
	if changed.before != nil {
		wrote.Before = changed.before.object
	}
	if !changed.gone {
		wrote.After = changed.after.object
	}
	s.fresh = append(s.fresh, wrote)
}

// mutateWrite has the mutating hook change an object that is to be written.
func (s *Server) mutateWrite(r *request, before *revision, object *unstructured.Unstructured) error {
	if s.mutate == nil || r.Subresource != "" {
		return nil
	}
	return s.mutate(s.proposed(r, before, object))
}

// admitWrite asks the admission hook; object is nil for a deletion.
func (s *Server) admitWrite(r *request, before *revision, object *unstructured.Unstructured) error {
	if s.admit == nil {
		return nil
	}
	return s.admit(s.proposed(r, before, object))
}

// proposed is a write that has not taken effect.
func (s *Server) proposed(r *request, before *revision, object *unstructured.Unstructured) Write {
	proposal := Write{Request: r.Request, At: s.now(), After: object, Body: r.body}
	if before != nil {
		proposal.Before = before.object
	}
	if object != nil {
		proposal.Namespace, proposal.Name = object.GetNamespace(), object.GetName()
	}
	return proposal
}

// validate checks a new object.
func (s *Server) validate(r *request, object *unstructured.Unstructured) error {
	problems := kindProblems(r, object)
	if len(problems) == 0 {
		problems = apivalidation.ValidateObjectMetaAccessor(object, r.resource.Namespaced, nameRule(r.resource), field.NewPath("metadata"))
		if r.resource.custom != nil {
			problems = r.resource.custom.versions[r.Version].validate(problems, object)
		}
	}
	return invalid(r, object, problems)
}

// validateUpdate checks an update.
func (s *Server) validateUpdate(r *request, object, old *unstructured.Unstructured) error {
	problems := kindProblems(r, object)
	if len(problems) > 0 {
		return invalid(r, object, problems)
	}
	metadata := field.NewPath("metadata")
	problems = apivalidation.ValidateObjectMetaAccessor(object, r.resource.Namespaced, path.ValidatePathSegmentName, metadata)
	problems = append(problems, apivalidation.ValidateObjectMetaAccessorUpdate(object, old, metadata)...)
	if r.resource.custom == nil {
		if r.GroupResource() == definitionResource && len(problems) == 0 {
			var err error
			r.parsed, err = parse(object)
			return err
		}
		return invalid(r, object, problems)
	}
	// What is stored may have been written in another version.
	old = shallow(old)
	old.SetAPIVersion(object.GetAPIVersion())
	check := (*rules).validateUpdate
	if r.isStatus() {
		check = (*rules).validateStatus
	}
	// Custom resources check this part of the metadata again.
	again := apivalidation.ValidateObjectMetaAccessorUpdate(object, old, metadata)
	return invalid(r, object, append(problems, check(r.resource.custom.versions[r.Version], again, object, old)...))
}

// invalid is the error for an object with problems; nil without.
func invalid(r *request, object *unstructured.Unstructured, problems field.ErrorList) error {
	if len(problems) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: r.Group, Kind: object.GetKind()}, object.GetName(), problems)
}

// kindProblems says what is wrong with the kind of a custom resource.
func kindProblems(r *request, object *unstructured.Unstructured) field.ErrorList {
	if is, must := object.GetKind(), r.resource.Kind.Kind; is != must {
		return field.ErrorList{field.Invalid(field.NewPath("kind"), is, fmt.Sprintf("must be %v", must))}
	}
	return nil
}

// nameRule is the rule for names of a kind.
func nameRule(resource *resource) apivalidation.ValidateNameFunc {
	switch {
	case resource.groupResource() == namespaceResource:
		return apivalidation.ValidateNamespaceName
	case resource.Group == "rbac.authorization.k8s.io":
		return path.ValidatePathSegmentName
	}
	return apivalidation.NameIsDNSSubdomain
}

// existing returns an object that must exist.
func existing(r *request) (*revision, error) {
	found := r.resource.objects[types.NamespacedName{Namespace: r.Namespace, Name: r.Name}]
	if found == nil {
		return nil, apierrors.NewNotFound(r.GroupResource(), r.Name)
	}
	return found, nil
}
