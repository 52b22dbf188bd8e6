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

package customize

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karmada-io/karmada/pkg/resourceinterpreter"
	"github.com/karmada-io/karmada/pkg/util/fedinformer/genericmanager"
)

// Interpreter is Karmada's resource interpreter with a counter of configuration
// changes.
type Interpreter struct {
	resourceinterpreter.ResourceInterpreter

	changes atomic.Int64
}

// Changed records a change of the configuration: the interpreter may now give
// different answers.
func (i *Interpreter) Changed() { i.changes.Add(1) }

// Epoch identifies the configuration within this process.
func (i *Interpreter) Epoch() int64 { return i.changes.Load() }

// NewInterpreter returns Karmada's resource interpreter with all customizations of
// users, and a function that starts it once and returns when it is ready.
func NewInterpreter(ctx context.Context, dynamicClient dynamic.Interface, reader client.Reader) (*Interpreter, func() error) {
	informers := genericmanager.NewSingleClusterInformerManager(ctx, dynamicClient, 0)
	made := &Interpreter{ResourceInterpreter: resourceinterpreter.NewResourceInterpreter(informers, &services{reader: reader})}
	return made, once(func() error {
		if err := made.Start(ctx); err != nil {
			return fmt.Errorf("starting Karmada's resource interpreter: %w", err)
		}
		return nil
	})
}

// once is sync.OnceValue for a function that waits for others. Its callers wait for a
// channel and not for a lock, which the simulation could not tell from being busy.
func once(start func() error) func() error {
	var (
		first sync.Once
		err   error
	)
	ended := make(chan struct{})
	return func() error {
		first.Do(func() {
			go func() {
				defer close(ended)
				err = start()
			}()
		})
		<-ended
		return err
	}
}

// services reads Services on demand. Only webhooks that name a Service need them.
// Karmada's lister would keep every Service of the control plane in memory.
type services struct {
	reader    client.Reader
	namespace string
}

// Services returns a lister for a namespace.
func (s *services) Services(namespace string) corev1listers.ServiceNamespaceLister {
	return &services{reader: s.reader, namespace: namespace}
}

// List lists the Services of the namespace.
func (s *services) List(selector labels.Selector) ([]*corev1.Service, error) {
	list := &corev1.ServiceList{}
	if err := s.reader.List(context.Background(), list, client.InNamespace(s.namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return nil, fmt.Errorf("listing Services: %w", err)
	}
	found := make([]*corev1.Service, 0, len(list.Items))
	for i := range list.Items {
		found = append(found, &list.Items[i])
	}
	return found, nil
}

// Get reads a Service of the namespace.
func (s *services) Get(name string) (*corev1.Service, error) {
	service := &corev1.Service{}
	err := s.reader.Get(context.Background(), types.NamespacedName{Namespace: s.namespace, Name: name}, service)
	if apierrors.IsNotFound(err) {
		return nil, err //nolint:wrapcheck // the caller looks at what it is
	}
	if err != nil {
		return nil, fmt.Errorf("reading Service %s/%s: %w", s.namespace, name, err)
	}
	return service, nil
}
