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
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
)

// rules are what one version of a CustomResourceDefinition says about objects.
type rules struct {
	// status is true if status is a subresource.
	status          bool
	structural      *structuralschema.Structural
	validator       validation.SchemaValidator
	statusValidator validation.SchemaValidator
	cel             *cel.Validator
}

// newRules compiles the schema of a version.
func newRules(version *apiextensionsv1.CustomResourceDefinitionVersion) (*rules, error) {
	made := &rules{status: version.Subresources != nil && version.Subresources.Status != nil}
	if version.Schema == nil {
		return nil, errors.New("schemas are required")
	}
	internal := &apiextensions.CustomResourceValidation{}
	if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(version.Schema, internal, nil); err != nil {
		return nil, fmt.Errorf("converting the schema: %w", err)
	}
	structural, err := structuralschema.NewStructural(internal.OpenAPIV3Schema)
	if err != nil {
		return nil, fmt.Errorf("the schema is not structural: %w", err)
	}
	if err := structuralschema.ValidateStructural(nil, structural).ToAggregate(); err != nil {
		return nil, fmt.Errorf("the schema is not structural: %w", err)
	}
	made.structural = structural.DeepCopy()
	if err := defaulting.PruneDefaults(made.structural); err != nil {
		return nil, fmt.Errorf("pruning the defaults: %w", err)
	}
	if made.validator, _, err = validation.NewSchemaValidator(internal.OpenAPIV3Schema); err != nil {
		return nil, fmt.Errorf("compiling the schema: %w", err)
	}
	if status, ok := internal.OpenAPIV3Schema.Properties["status"]; ok && made.status {
		if made.statusValidator, _, err = validation.NewSchemaValidator(&status); err != nil {
			return nil, fmt.Errorf("compiling the schema of the status: %w", err)
		}
	}
	made.cel = cel.NewValidator(made.structural, true, celconfig.PerCallLimit)
	return made, nil
}

// shape prunes an object and adds defaults.
func (u *rules) shape(object *unstructured.Unstructured, strict bool) error {
	kind := object.GroupVersionKind()
	meta, found, unknown, err := objectmeta.GetObjectMetaWithOptions(object.Object, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: strict})
	if err != nil {
		return err //nolint:wrapcheck // the answer quotes it as an API server does
	}
	unknown = append(unknown, pruning.PruneWithOptions(object.Object, u.structural, true,
		structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: strict})...)
	defaulting.PruneNonNullableNullsWithoutDefaults(object.Object, u.structural)
	problem, paths := objectmeta.CoerceWithOptions(nil, object.Object, u.structural, false, objectmeta.CoerceOptions{ReturnUnknownFieldPaths: strict})
	if problem != nil {
		return problem
	}
	setKind(object, kind)
	if found {
		if err := objectmeta.SetObjectMeta(object.Object, meta); err != nil {
			return err //nolint:wrapcheck // the answer quotes it as an API server does
		}
	}
	if unknown = append(unknown, paths...); len(unknown) > 0 {
		strictErrors := make([]error, 0, len(unknown))
		for _, path := range unknown {
			strictErrors = append(strictErrors, fmt.Errorf("unknown field %q", path))
		}
		return runtime.NewStrictDecodingError(strictErrors)
	}
	u.addDefaults(object)
	return nil
}

func (u *rules) addDefaults(object *unstructured.Unstructured) {
	defaulting.Default(object.Object, u.structural)
}

// validate checks a new object. It adds to the problems of its metadata.
func (u *rules) validate(problems field.ErrorList, object *unstructured.Unstructured) field.ErrorList {
	problems = append(problems, inOrder(validation.ValidateCustomResource(nil, object.Object, u.validator))...)
	problems = append(problems, objectmeta.Validate(nil, object.Object, u.structural, false)...)
	problems = append(problems, listtype.ValidateListSetsAndMaps(nil, u.structural, object.Object)...)
	return append(problems, u.evaluate(problems, object, nil)...)
}

// validateUpdate checks an update. It adds to the problems of its metadata.
func (u *rules) validateUpdate(problems field.ErrorList, object, old *unstructured.Unstructured) field.ErrorList {
	correlated := common.NewCorrelatedObject(object.Object, old.Object, &model.Structural{Structural: u.structural})
	problems = append(problems, inOrder(validation.ValidateCustomResourceUpdate(nil, object.Object, old.Object, u.validator,
		validation.WithRatcheting(correlated)))...)
	problems = append(problems, objectmeta.Validate(nil, object.Object, u.structural, false)...)
	if len(listtype.ValidateListSetsAndMaps(nil, u.structural, old.Object)) == 0 {
		problems = append(problems, listtype.ValidateListSetsAndMaps(nil, u.structural, object.Object)...)
	}
	return append(problems, u.evaluate(problems, object, old, cel.WithRatcheting(correlated))...)
}

// validateStatus checks an update of the status. It adds to the problems of its
// metadata.
func (u *rules) validateStatus(problems field.ErrorList, object, old *unstructured.Unstructured) field.ErrorList {
	correlated := common.NewCorrelatedObject(object.Object, old.Object, &model.Structural{Structural: u.structural})
	if status, has := object.Object["status"]; has {
		problems = append(problems, inOrder(validation.ValidateCustomResourceUpdate(field.NewPath("status"), status, old.Object["status"],
			u.statusValidator, validation.WithRatcheting(correlated.Key("status"))))...)
	}
	if lists := listtype.ValidateListSetsAndMaps(nil, u.structural, object.Object); len(lists) > 0 &&
		len(listtype.ValidateListSetsAndMaps(nil, u.structural, old.Object)) == 0 {
		problems = append(problems, lists...)
	}
	return append(problems, u.evaluate(problems, object, old, cel.WithRatcheting(correlated))...)
}

// inOrder sorts problems, which the library returns in the order of a map.
func inOrder(problems field.ErrorList) field.ErrorList {
	slices.SortStableFunc(problems, func(a, b *field.Error) int {
		return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Error(), b.Error()))
	})
	return problems
}

// evaluate checks the rules of the schema that are written in CEL.
func (u *rules) evaluate(problems field.ErrorList, object, old *unstructured.Unstructured, options ...cel.Option) field.ErrorList {
	if u.cel == nil {
		return nil
	}
	for _, problem := range problems {
		switch problem.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return field.ErrorList{field.Invalid(nil, nil,
				"some validation rules were not checked because the object was invalid; correct the existing errors to complete validation")}
		default:
		}
	}
	var before any
	if old != nil {
		before = old.Object
	}
	found, _ := u.cel.Validate(context.Background(), nil, u.structural, object.Object, before, celconfig.RuntimeCELCostBudget, options...)
	return found
}
