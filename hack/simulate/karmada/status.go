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
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
)

// The defaults of retry.DefaultRetry, without its jitter.
const (
	conflictTries = 5
	conflictPause = 10 * time.Millisecond
)

// onConflict is retry.RetryOnConflict, one try per step. A try returns a conflict to be
// tried again. The function then continues the pass with the last error.
func onConflict(name string, try func(context.Context) error, then func(error) (*step, error)) *step {
	return conflictStep(name, 1, nil, try, then)
}

func conflictStep(name string, attempt int, conflict error, try func(context.Context) error, then func(error) (*step, error)) *step {
	s := &step{name: name}
	if attempt > 1 {
		s.name, s.wait = name+" again", conflictPause
	}
	s.do = func(ctx context.Context) (*step, error) {
		err := try(ctx)
		if apierrors.IsConflict(err) && attempt < conflictTries {
			return conflictStep(name, attempt+1, err, try, then), nil
		}
		if conflict != nil && errors.Is(err, errUnanswered) {
			err = conflict // as retry.OnError does
		}
		return then(err)
	}
	return s
}

// object is a pointer to an API object that can be read into.
type object[T any] interface {
	*T
	client.Object
}

// writeStatus is helper.UpdateStatus in retry.RetryOnConflict. Each try reads the object
// from the view, which may be behind, and so replaces what the pass knew of it.
func writeStatus[T any, P object[T]](p *process, name string, in *view[P], known P, mutate func(P), then func(error) (*step, error)) *step {
	return onConflict(name, func(ctx context.Context) error {
		fresh, err := in.get(keyOf(known), name)
		if err != nil {
			return err
		}
		*known = *fresh
		mutate(known)
		unchanged := in.objects[keyOf(known)]
		if equality.Semantic.DeepEqual(unchanged, known) {
			return nil
		}
		api, err := p.api()
		if err != nil {
			return err
		}
		return api.Status().Update(ctx, known)
	}, then)
}

// writeCondition sets a condition of a Work. A condition that is equal is not written.
func (p *process) writeCondition(name string, work *workv1alpha1.Work, condition metav1.Condition, then func(error) (*step, error)) *step {
	return writeStatus(p, name, p.works, work, func(work *workv1alpha1.Work) {
		meta.SetStatusCondition(&work.Status.Conditions, condition)
	}, then)
}

// applied is the condition Applied, as the process writes it at this moment.
func (p *process) applied(status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: workv1alpha1.WorkApplied, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(p.now())}
}
