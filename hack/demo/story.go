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
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

const (
	// karmada is the name of the control plane among the fleet's clusters.
	karmada = "karmada"
	// example is the manifest that the demo applies. The names below are those of its
	// objects.
	example    = "docs/examples/shop.yaml"
	namespace  = "shop"
	deployment = "web"
	configMap  = "web-config"
	firstImage = "nginx:1.28"
	nextImage  = "nginx:1.29"
	lastImage  = "nginx:1.30"
)

// story is the state of a running demo.
type story struct {
	*fleet
	out *printer
	// server is a client of Karmada's API server.
	server client.WithWatch
}

// step is a step of the demo.
type step struct {
	title, why string
	do         func(context.Context) error
}

// steps returns all steps in order.
func (s *story) steps() []step {
	steps := []step{
		{
			"A fleet: Karmada and two member clusters, as plain processes",
			"Karmada pushes to member1, and member2 pulls through karmada-agent.\n" +
				"      The first run compiles their programs, which takes several minutes. Later runs reuse them.",
			s.bringUp,
		},
		{
			"Build the controller",
			"One program, built from this working tree while the fleet starts.",
			func(context.Context) error { return s.useController() },
		},
		{
			"Install the kind DirectPropagation",
			"It belongs on Karmada's API server, next to the resources that it propagates.",
			func(ctx context.Context) error { return s.installCRDs(ctx, s.out) },
		},
		{
			"Start the controller",
			"It runs in the background, on this machine.",
			func(ctx context.Context) error { return s.startController(ctx, s.out) },
		},
		{
			"Propagate a Deployment and a ConfigMap to both members",
			"A row turns True when the member has confirmed the revision, not before.",
			s.propagate,
		},
		{
			"Change the image",
			"Only the Deployment is touched. A row shows the old revision until the member has confirmed the new one.",
			s.change,
		},
	}
	steps = append(steps, s.rolloutSteps()...)
	return append(steps, step{"Check the members", "They must run what the rows say.", s.ask})
}

// tell runs all steps and stops at the first failure.
func tell(ctx context.Context, fleet *fleet, out *printer) error {
	s := &story{fleet: fleet, out: out}
	steps := s.steps()
	// Compile in parallel: a starting fleet mostly waits, and the linker uses one core.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.compileController(ctx)
	out.steps = len(steps)
	for _, step := range steps {
		out.begin(step.title, step.why)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("step %d of %d, %q, failed: %w", out.step, out.steps, step.title, err)
		}
		out.end()
	}
	s.next()
	return nil
}

func (s *story) bringUp(ctx context.Context) error {
	if err := s.up(ctx, s.out); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, propagationv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return fmt.Errorf("building the scheme: %w", err)
		}
	}
	server, err := s.connect(karmada, scheme)
	s.server = server
	return err
}

func (s *story) connect(cluster string, scheme *runtime.Scheme) (client.WithWatch, error) {
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig(cluster))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", s.kubeconfig(cluster), err)
	}
	server, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", cluster, err)
	}
	return server, nil
}

func (s *story) propagate(ctx context.Context) error {
	if err := s.forgetRollout(ctx); err != nil {
		return err
	}
	if err := s.kubectl(ctx, s.out, karmada, "apply", "-f", example); err != nil {
		return err
	}
	return s.await(ctx, firstImage, configMap, deployment)
}

func (s *story) change(ctx context.Context) error {
	if err := s.kubectl(ctx, s.out, karmada, "-n", namespace, "set", "image", "deployment/"+deployment, "web="+nextImage); err != nil {
		return err
	}
	return s.await(ctx, nextImage, deployment)
}

// await waits until all rows confirm the current revisions, and then immediately
// checks the members.
func (s *story) await(ctx context.Context, image string, names ...string) error {
	s.out.mark()
	expected := map[string]goal{}
	for _, name := range names {
		revision, err := s.revision(ctx, name)
		if err != nil {
			return err
		}
		expected[name] = readyAt(revision)
	}
	if err := s.follow(ctx, confirmations, expected); err != nil {
		return err
	}
	return s.verify(ctx, image)
}

// revision returns the current revision of a resource, which all clusters must
// confirm.
func (s *story) revision(ctx context.Context, name string) (string, error) {
	resource := &unstructured.Unstructured{}
	switch name {
	case deployment:
		resource.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	case configMap:
		resource.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	}
	if err := s.server.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, resource); err != nil {
		return "", fmt.Errorf("reading %s %s/%s: %w", resource.GetKind(), namespace, name, err)
	}
	manifest, err := render.NewManifest(resource, propagationv1alpha1.ConflictAbort)
	if err != nil {
		return "", fmt.Errorf("rendering %s %s/%s: %w", resource.GetKind(), namespace, name, err)
	}
	return manifest.Revision, nil
}

// verify compares the members with what the rows say.
func (s *story) verify(ctx context.Context, image string) error {
	wanted := &corev1.ConfigMap{}
	if err := s.server.Get(ctx, client.ObjectKey{Namespace: namespace, Name: configMap}, wanted); err != nil {
		return fmt.Errorf("reading ConfigMap %s/%s: %w", namespace, configMap, err)
	}
	for _, member := range s.members() {
		server, err := s.connect(member.Name, s.server.Scheme())
		if err != nil {
			return err
		}
		deployed, configured := &appsv1.Deployment{}, &corev1.ConfigMap{}
		if err := server.Get(ctx, client.ObjectKey{Namespace: namespace, Name: deployment}, deployed); err != nil {
			return fmt.Errorf("%w: reading Deployment %s from %s: %w", errUntrue, deployment, member.Name, err)
		}
		if err := server.Get(ctx, client.ObjectKey{Namespace: namespace, Name: configMap}, configured); err != nil {
			return fmt.Errorf("%w: reading ConfigMap %s from %s: %w", errUntrue, configMap, member.Name, err)
		}
		if runs := deployed.Spec.Template.Spec.Containers[0].Image; runs != image {
			return fmt.Errorf("%w: %s runs image %s, not %s", errUntrue, member.Name, runs, image)
		}
		if has := configured.Data["greeting"]; has != wanted.Data["greeting"] {
			return fmt.Errorf("%w: on %s, the greeting is %q, not %q", errUntrue, member.Name, has, wanted.Data["greeting"])
		}
	}
	return nil
}

func (s *story) ask(ctx context.Context) error {
	for _, member := range s.members() {
		if err := s.kubectl(ctx, s.out, member.Name, "-n", namespace, "get", "deployment/"+deployment, "-o", "wide"); err != nil {
			return err
		}
		if err := s.kubectl(ctx, s.out, member.Name, "-n", namespace, "get", "configmap/"+configMap, "-o", "jsonpath={.data}"); err != nil {
			return err
		}
	}
	return s.verify(ctx, lastImage)
}

// next prints what is running and what to try next.
func (s *story) next() {
	fmt.Fprintf(s.out.out, `
This took %s. Everything keeps running.

      Karmada   %s
`, seconds(time.Since(s.out.began)), s.kubeconfig(karmada))
	for _, member := range s.members() {
		fmt.Fprintf(s.out.out, "      %-9s %s   (%s)\n", member.Name, s.kubeconfig(member.Name), member.Mode)
	}
	fmt.Fprintf(s.out.out, `
Try next, from this folder:

  export PATH=%s:$PATH KUBECONFIG=%s

  # What runs where, and in which revision.
  kubectl -n %[3]s get dp -o wide

  # Withdraw the Deployment from member2, and check the member.
  kubectl -n %[3]s patch dp %[4]s --type merge -p '{"spec":{"clusters":[{"name":"member1"}]}}'
  kubectl --kubeconfig %[5]s -n %[3]s get deployment

  # An outage: within a minute, the row of member2 is Unknown.
  go -C hack/fleet run . stop --name %[6]s member2
  kubectl -n %[3]s get dp %[7]s -w -o wide

  make demo       # runs the demo again, and starts what you have stopped
  make demo-down  # stops everything
`, s.running.State.Bin, s.kubeconfig(karmada), namespace, deployment, s.kubeconfig("member2"), s.name, configMap)
}

// down stops what the demo has started.
func down(ctx context.Context, fleet *fleet, out *printer) error {
	if !fleet.exists() {
		out.line("There is no fleet %s; nothing to stop.", fleet.name)
		return nil
	}
	if err := fleet.stopController(ctx, out); err != nil {
		return err
	}
	all, err := fleet.run(ctx, func(line string) { out.line("%s", line) }, "down")
	if err != nil {
		return fmt.Errorf("%w\n%s", err, all)
	}
	return nil
}
