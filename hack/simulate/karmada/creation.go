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

package karmada

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"github.com/karmada-io/karmada/pkg/controllers/ctrlutil"
)

// creation is a client for one call of ctrlutil.CreateOrUpdateWork: it reads Works from
// the view of a process, and hides conflicts, so that the call returns instead of
// sleeping and trying again.
type creation struct {
	client.Client
	p        *process
	conflict error
}

var errHidden = errors.New("conflict")

// Get reads a Work from the view.
func (c *creation) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	work, err := c.p.works.get(key, "works.work.karmada.io")
	if err != nil {
		return err
	}
	into, ok := object.(*workv1alpha1.Work)
	if !ok {
		return fmt.Errorf("reading a %T instead of a Work", object)
	}
	*into = *work
	return nil
}

// Update writes a Work, and keeps a conflict for itself.
func (c *creation) Update(ctx context.Context, object client.Object, options ...client.UpdateOption) error {
	err := c.Client.Update(ctx, object, options...)
	if apierrors.IsConflict(err) {
		c.conflict = err
		return errHidden
	}
	return err
}

// createOrUpdateWork is ctrlutil.CreateOrUpdateWork itself, one try per step. It takes
// over whatever Work has the name.
func (p *process) createOrUpdateWork(meta metav1.ObjectMeta, resource *unstructured.Unstructured, then func(error) (*step, error), options ...ctrlutil.WorkOption) *step {
	return onConflict("writes Work "+meta.Namespace+"/"+meta.Name, func(ctx context.Context) error {
		c := &creation{Client: p.karmada.client, p: p}
		err := ctrlutil.CreateOrUpdateWork(ctx, c, meta, resource, options...)
		if c.conflict != nil {
			return c.conflict
		}
		return err
	}, then)
}
