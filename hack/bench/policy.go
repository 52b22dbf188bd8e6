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

package main

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
)

// policy is PropagationPolicy, used in the way that is cheapest for Karmada: one
// policy for all resources of the load.
type policy struct {
	*ground
	load *load
}

func newPolicy(g *ground, l *load) contender { return &policy{ground: g, load: l} }

func (p *policy) object() *policyv1alpha1.PropagationPolicy {
	return &policyv1alpha1.PropagationPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.load.namespace, Name: p.load.name},
		Spec: policyv1alpha1.PropagationSpec{
			ResourceSelectors: []policyv1alpha1.ResourceSelector{{
				APIVersion: p.load.apiVersion, Kind: p.load.kind,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{loadLabel: p.load.name}},
			}},
			Placement: policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{ClusterNames: p.load.clusters}},
		},
	}
}

func (*policy) before(context.Context, phase) error { return nil }

func (p *policy) do(ctx context.Context, current phase, sent func(int)) error {
	switch current {
	case phaseCreate:
		for i := range p.load.objects {
			sent(i)
		}
		if err := p.client.Create(ctx, p.object()); err != nil {
			return fmt.Errorf("creating the policy: %w", err)
		}
		return nil
	case phaseUpdate:
		return p.load.setRevision(ctx, p.client, 2, sent)
	default:
		// If only the policy were deleted, its Works would stay.
		return p.load.deleteTemplates(ctx, p.client, sent)
	}
}

func (p *policy) after(ctx context.Context) error {
	return client.IgnoreNotFound(p.client.Delete(ctx, p.object()))
}
