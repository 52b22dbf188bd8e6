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

package apiserver_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/karmada-direct/karmada-direct/hack/simulate/apiserver"
)

// TestMain removes the handler that makes goroutines sleep after errors. It compares
// times of the process with those of a bubble, which begin in the year 2000, and makes
// them sleep for decades.
func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = nil //nolint:reassign // it is a variable so that programs can set it
	klog.SetLogger(logr.Discard())
	m.Run()
}

// stepper makes one step of a simulation after the other.
type stepper struct {
	server *apiserver.Server
	random *rand.Rand
	log    []string
}

// step waits until nothing moves, and makes one choice. Without any choice, it lets a
// second pass.
func (s *stepper) step() {
	synctest.Wait()
	calls, streams := s.server.Pending(), s.server.Streams()
	waiting := streams[:0]
	for _, stream := range streams {
		if stream.Waiting() > 0 {
			waiting = append(waiting, stream)
		}
	}
	if len(calls)+len(waiting) == 0 {
		<-time.After(time.Second)
		return
	}
	if chosen := s.random.IntN(len(calls) + len(waiting)); chosen < len(calls) {
		s.log = append(s.log, calls[chosen].String())
		s.decide(calls[chosen])
	} else {
		chosen := waiting[chosen-len(calls)]
		s.log = append(s.log, chosen.String())
		if s.random.IntN(20) == 0 {
			chosen.Cut()
		} else {
			chosen.Deliver(1 + s.random.IntN(chosen.Waiting()))
		}
	}
}

func (s *stepper) decide(call *apiserver.Call) {
	switch s.random.IntN(20) {
	case 0:
		call.Refuse(apierrors.NewTooManyRequests("busy", 1))
	case 1:
		call.Drop()
	case 2:
		call.ServeAndDrop()
	default:
		call.Serve()
	}
}

// TestManager runs a controller that copies each Secret to a ConfigMap.
func TestManager(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runManager(t, seed) })
		})
	}
}

func runManager(t *testing.T, seed uint64) {
	server := newServer(t)
	users := clientOf(t, server, "user")
	create(t, users, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := startManager(ctx, t, server)
	steps := &stepper{server: server, random: rand.New(rand.NewPCG(seed, 0))}
	for i := range 10 {
		create(t, users, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("s%d", i)}})
		for range 30 {
			steps.step()
		}
	}
	copies := &corev1.ConfigMapList{}
	for tries := 0; len(copies.Items) < 10; tries++ {
		if tries == 5000 {
			t.Fatalf("%d of 10 copies exist; last steps:\n%v", len(copies.Items), steps.log[max(0, len(steps.log)-20):])
		}
		steps.step()
		if err := users.List(ctx, copies); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	server.Close()
	if err := <-ended; err != nil {
		t.Log(err)
	}
	<-time.After(time.Minute)
}

// startManager runs a controller that copies each Secret to a ConfigMap.
func startManager(ctx context.Context, t *testing.T, server *apiserver.Server) <-chan error {
	t.Helper()
	mgr, err := ctrl.NewManager(server.Config("controller"), ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: "0"}, Logger: logr.Discard(),
		LeaderElection: true, LeaderElectionID: "copier", LeaderElectionNamespace: "shop", LeaderElectionReleaseOnCancel: true,
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	recorder := mgr.GetEventRecorder("copier")
	err = ctrl.NewControllerManagedBy(mgr).For(&corev1.Secret{}).Owns(&corev1.ConfigMap{}).Complete(reconcile.Func(
		func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
			secret, made := &corev1.Secret{}, &corev1.ConfigMap{}
			if err := mgr.GetClient().Get(ctx, request.NamespacedName, secret); err != nil {
				return reconcile.Result{}, client.IgnoreNotFound(err)
			}
			if err := mgr.GetClient().Get(ctx, request.NamespacedName, made); !apierrors.IsNotFound(err) {
				return reconcile.Result{}, err
			}
			made.Namespace, made.Name = secret.Namespace, secret.Name
			recorder.Eventf(secret, nil, corev1.EventTypeNormal, "Copying", "Copy", "copying it")
			return reconcile.Result{}, mgr.GetClient().Create(ctx, made)
		}))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	return ended
}

func newServer(t testing.TB) *apiserver.Server {
	t.Helper()
	server, err := apiserver.New(apiserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return server
}

func clientOf(t testing.TB, server *apiserver.Server, name string) client.Client {
	t.Helper()
	made, err := server.Client(name)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func create(t testing.TB, to client.Client, object client.Object) {
	t.Helper()
	if err := to.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}
