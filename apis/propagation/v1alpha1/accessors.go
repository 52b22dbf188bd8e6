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

package v1alpha1

// GetSpec returns the spec, for code that serves every kind of this package.
func (d *DirectPropagation) GetSpec() *PropagationSpec { return &d.Spec }

// GetStatus returns the status, for code that serves every kind of this package.
func (d *DirectPropagation) GetStatus() *PropagationStatus { return &d.Status }

// GetSpec returns the spec, for code that serves every kind of this package.
func (d *ClusterDirectPropagation) GetSpec() *PropagationSpec { return &d.Spec }

// GetStatus returns the status, for code that serves every kind of this package.
func (d *ClusterDirectPropagation) GetStatus() *PropagationStatus { return &d.Status }
