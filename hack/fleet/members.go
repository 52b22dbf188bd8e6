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
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// nodesPerMember is enough to spread a Deployment.
const nodesPerMember = 2

// unjoinWait is how long an unjoin may take. After an outage, Karmada's back-off delays the
// removal of what the cluster still has.
const unjoinWait = 5 * time.Minute

// forcedWait is how long a forced unjoin waits for Karmada's own cleanup.
const forcedWait = 10 * time.Second

// memberTasks returns the tasks that create a member's nodes and register it with
// Karmada.
func (s *State) memberTasks(m Member) []task {
	registered := []string{stepClusterAPI, stepCRDs, programKarmadaControllerManager}
	if m.Mode == Pull {
		registered = append(registered, agentOf(m.Name))
	} else {
		p := plane{name: m.Name}
		registered = append(registered, p.apiServer(), p.controllerManager())
	}
	return []task{
		{name: m.Name + "'s nodes", needs: []string{plane{name: m.Name}.apiServer()}, run: func(ctx context.Context) error {
			return s.addNodes(ctx, m.Name)
		}},
		{name: m.Name + " is registered and Ready", needs: registered, run: func(ctx context.Context) error {
			return s.register(ctx, m)
		}},
	}
}

// karmadaNamespace is the namespace in which Karmada keeps its objects on a member.
const karmadaNamespace = "karmada-cluster"

// hostTasks returns the task that creates the host cluster's nodes.
func (s *State) hostTasks() []task {
	if !s.Host {
		return nil
	}
	return []task{{name: "the host cluster's nodes", needs: []string{plane{name: groupHost}.apiServer()}, run: func(ctx context.Context) error {
		return s.addNodes(ctx, groupHost)
	}}}
}

// addNodes creates nodes whose kubelets are simulated by kwok. They have room for
// every Pod.
func (s *State) addNodes(ctx context.Context, cluster string) error {
	client, err := s.client(cluster)
	if err != nil {
		return err
	}
	for i := range nodesPerMember {
		name := fmt.Sprintf("%s-node%d", cluster, i+1)
		node := object("v1", "Node", "", name, nil)
		node.SetAnnotations(map[string]string{"kwok.x-k8s.io/node": "fake"})
		node.SetLabels(map[string]string{
			"kubernetes.io/hostname": name,
			"kubernetes.io/os":       "linux",
			"kubernetes.io/arch":     "amd64",
			"type":                   "kwok",
		})
		if err := apply(ctx, client, node); err != nil {
			return err
		}
	}
	return nil
}

// register registers a member with Karmada, unless it already is, and waits until
// Karmada reports it as Ready. The agent of a pull member registers the member
// itself.
func (s *State) register(ctx context.Context, m Member) error {
	client, err := s.client(groupKarmada)
	if err != nil {
		return err
	}
	if m.Mode == Push {
		if err := s.karmadactlJoin(ctx, client, m); err != nil {
			return err
		}
	}
	return awaitCondition(ctx, client, clusters, m.Name, "Ready")
}

// awaitLeft waits until Karmada's namespace on a member is no longer being deleted.
// An agent that starts before then exits, because it cannot create objects in a
// terminating namespace.
func (s *State) awaitLeft(ctx context.Context, m Member) error {
	client, err := s.client(m.Name)
	if err != nil {
		return err
	}
	err = poll(ctx, func(ctx context.Context) (bool, error) {
		namespace, err := client.Resource(namespaces).Get(ctx, karmadaNamespace, metav1.GetOptions{})
		return apierrors.IsNotFound(err) || err == nil && namespace.GetDeletionTimestamp() == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting until %s has no terminating namespace %s: %w", m.Name, karmadaNamespace, err)
	}
	return nil
}

// karmadactlJoin retries until it succeeds: the cluster API may not be ready yet, or
// a Cluster of the same name may still be terminating.
func (s *State) karmadactlJoin(ctx context.Context, client dynamic.Interface, m Member) error {
	var last error
	err := poll(ctx, func(ctx context.Context) (bool, error) {
		cluster, err := client.Resource(clusters).Get(ctx, m.Name, metav1.GetOptions{})
		if err == nil && cluster.GetDeletionTimestamp() == nil {
			return true, nil
		}
		if apierrors.IsNotFound(err) {
			err = s.karmadactl(ctx, "join", m.Name,
				"--kubeconfig="+s.kubeconfig(groupKarmada), "--karmada-context="+karmadaContext,
				"--cluster-kubeconfig="+s.kubeconfig(m.Name), "--cluster-context="+m.Name)
		}
		last = err
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("joining %s: %w", m.Name, errors.Join(err, last))
	}
	return nil
}

// unregister removes a member from Karmada. With force, it succeeds even if Karmada
// cannot clean up a member that it cannot reach.
func (s *State) unregister(ctx context.Context, m Member, force bool) error {
	client, err := s.client(groupKarmada)
	if err != nil {
		return err
	}
	_, err = client.Resource(clusters).Get(ctx, m.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for the Cluster %s: %w", m.Name, err)
	}
	switch {
	case m.Mode == Push && force:
		return s.karmadactl(ctx, append(s.unjoinArgs(m), "--force", "--wait="+forcedWait.String())...)
	case m.Mode == Push:
		return s.karmadactl(ctx, append(s.unjoinArgs(m), "--cluster-kubeconfig="+s.kubeconfig(m.Name), "--cluster-context="+m.Name, "--wait="+unjoinWait.String())...)
	case force:
		return s.forgetPullMember(ctx, client, m)
	default:
		return s.karmadactlUnregister(ctx, m)
	}
}

func (s *State) unjoinArgs(m Member) []string {
	return []string{"unjoin", m.Name, "--kubeconfig=" + s.kubeconfig(groupKarmada), "--karmada-context=" + karmadaContext}
}

// filesOfRegister are files that `karmadactl unregister` deletes on the local
// machine, because it assumes that it runs on the member.
var filesOfRegister = []string{"/etc/karmada/karmada-agent.conf", "/etc/karmada/pki/ca.crt"}

func (s *State) karmadactlUnregister(ctx context.Context, m Member) error {
	for _, path := range filesOfRegister {
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("unregistering %s: `karmadactl unregister` would delete %s, which does not belong to this fleet; `fleet unjoin --force %s` works without it", m.Name, path, m.Name)
		}
	}
	return s.karmadactl(ctx, "unregister", m.Name,
		"--karmada-config="+s.kubeconfig(groupKarmada), "--karmada-context="+karmadaContext,
		"--cluster-kubeconfig="+s.kubeconfig(m.Name), "--cluster-context="+m.Name, "--wait="+unjoinWait.String())
}

// forgetPullMember does for a pull member what `karmadactl unjoin --force` does for
// a push member. karmadactl itself refuses to do it for pull members.
func (s *State) forgetPullMember(ctx context.Context, client dynamic.Interface, m Member) error {
	err := client.Resource(clusters).Delete(ctx, m.Name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting the Cluster %s: %w", m.Name, err)
	}
	patient, cancel := context.WithTimeout(ctx, forcedWait)
	defer cancel()
	if awaitGone(patient, client, clusters, m.Name) == nil {
		return nil
	}
	space := "karmada-es-" + m.Name
	list, err := client.Resource(works).Namespace(space).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing the Works of %s: %w", m.Name, err)
	}
	for _, work := range list.Items {
		if err := dropFinalizers(ctx, client, works, space, work.GetName()); err != nil {
			return err
		}
	}
	if err := dropFinalizers(ctx, client, clusters, "", m.Name); err != nil {
		return err
	}
	return awaitGone(ctx, client, clusters, m.Name)
}

func dropFinalizers(ctx context.Context, client dynamic.Interface, gvr schema.GroupVersionResource, namespace, name string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": nil}})
	if err != nil {
		return err
	}
	_, err = client.Resource(gvr).Namespace(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("removing the finalizers of %s %s: %w", gvr.Resource, name, err)
	}
	return nil
}

// karmadactl runs Karmada's command-line client.
func (s *State) karmadactl(ctx context.Context, args ...string) error {
	output, err := s.command(ctx, programKarmadactl, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("karmadactl %s: %w\n%s", strings.Join(args[:2], " "), err, bytes.TrimSpace(output))
	}
	return nil
}
