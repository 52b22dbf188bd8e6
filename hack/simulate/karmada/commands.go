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
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util"
	"github.com/karmada-io/karmada/pkg/util/names"
)

// What karmadactl unjoin and unregister wait, at most and between two looks.
const (
	commandPatience = 60 * time.Second
	commandPause    = time.Second
)

// command is a run of karmadactl.
type command struct {
	cluster string
	// pull says that it is "unregister", which deletes the Works first.
	pull, force bool
	deadline    time.Time
	done        bool
	err         error
}

// commands are the runs of karmadactl, by cluster.
type commands struct {
	karmada *Karmada
	runs    map[string]*command
	running *controller[types.NamespacedName]
}

func newCommands(k *Karmada) *commands {
	c := &commands{karmada: k, runs: map[string]*command{}}
	c.running = newController("karmadactl", k.now, 100, false, c.begin)
	return c
}

func (c *commands) actions() []Action { return c.running.actions() }
func (c *commands) runners() []runner { return []runner{c.running} }

// Unjoin begins "karmadactl unjoin" of a push cluster. With force, it takes finalizers
// away when the time is over.
func (k *Karmada) Unjoin(cluster string, force bool) {
	k.commands.start(&command{cluster: cluster, force: force})
}

// Unregister begins "karmadactl unregister" of a pull cluster: it deletes the Works until
// there are none, and only then the Cluster.
func (k *Karmada) Unregister(cluster string) {
	k.commands.start(&command{cluster: cluster, pull: true})
}

// CommandResult returns how the last command for a cluster ended, and whether it has.
func (k *Karmada) CommandResult(cluster string) (done bool, err error) {
	run := k.commands.runs[cluster]
	if run == nil {
		return true, nil
	}
	return run.done, run.err
}

func (c *commands) start(run *command) {
	run.deadline = c.karmada.now().Add(commandPatience)
	c.runs[run.cluster] = run
	c.running.queue.add(types.NamespacedName{Name: run.cluster})
}

func (c *commands) begin(key types.NamespacedName) *step {
	run := c.runs[key.Name]
	return &step{name: "starts", do: func(context.Context) (*step, error) {
		if run.pull {
			return c.lookForWorks(run), nil
		}
		return c.deleteCluster(run), nil
	}}
}

func (c *commands) end(run *command, err error) (*step, error) {
	run.done, run.err = true, err
	return nil, nil
}

func (run *command) space() client.ListOption {
	return client.InNamespace(names.GenerateExecutionSpaceName(run.cluster))
}

// lookForWorks is one round of EnsureWorksDeleted.
func (c *commands) lookForWorks(run *command) *step {
	return &step{name: "lists the Works", wait: commandPause, do: func(ctx context.Context) (*step, error) {
		if c.karmada.now().After(run.deadline) {
			return c.end(run, context.DeadlineExceeded)
		}
		list := &workv1alpha1.WorkList{}
		if err := c.karmada.client.List(ctx, list, run.space()); err != nil {
			return c.end(run, err)
		}
		if len(list.Items) == 0 {
			return c.deleteCluster(run), nil
		}
		return c.deleteWorks(run, list.Items), nil
	}}
}

// deleteWorks deletes every Work, also one that is being deleted already.
func (c *commands) deleteWorks(run *command, works []workv1alpha1.Work) *step {
	if len(works) == 0 {
		return c.lookForWorks(run)
	}
	work := works[0].DeepCopy()
	return &step{name: "deletes Work " + work.Name, do: func(ctx context.Context) (*step, error) {
		if err := c.karmada.client.Delete(ctx, work); client.IgnoreNotFound(err) != nil {
			return c.end(run, err)
		}
		return c.deleteWorks(run, works[1:]), nil
	}}
}

// deleteCluster is DeleteClusterObject.
func (c *commands) deleteCluster(run *command) *step {
	return &step{name: "deletes the Cluster", do: func(ctx context.Context) (*step, error) {
		cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: run.cluster}}
		if err := c.karmada.client.Delete(ctx, cluster); err != nil {
			return c.end(run, err)
		}
		return c.awaitCluster(run), nil
	}}
}

func (c *commands) awaitCluster(run *command) *step {
	return &step{name: "waits for the Cluster to go", wait: commandPause, do: func(ctx context.Context) (*step, error) {
		err := c.karmada.client.Get(ctx, types.NamespacedName{Name: run.cluster}, &clusterv1alpha1.Cluster{})
		switch {
		case apierrors.IsNotFound(err):
			return c.end(run, nil)
		case err != nil:
			return c.end(run, err)
		case c.karmada.now().Before(run.deadline):
			return c.awaitCluster(run), nil
		case run.force:
			return c.forceWorks(ctx, run)
		default:
			return c.end(run, context.DeadlineExceeded)
		}
	}}
}

// forceWorks strips the finalizers of Works. An error ends that, and nothing else.
func (c *commands) forceWorks(ctx context.Context, run *command) (*step, error) {
	list := &workv1alpha1.WorkList{}
	if err := c.karmada.client.List(ctx, list, run.space()); err != nil {
		return c.forceCluster(run), nil
	}
	return c.strip(run, list.Items), nil
}

func (c *commands) strip(run *command, works []workv1alpha1.Work) *step {
	for i := range works {
		work := works[i].DeepCopy()
		if !controllerutil.RemoveFinalizer(work, util.ExecutionControllerFinalizer) {
			continue
		}
		return &step{name: "strips the finalizer of Work " + work.Name, do: func(ctx context.Context) (*step, error) {
			if err := c.karmada.client.Update(ctx, work); err != nil {
				return c.forceCluster(run), nil
			}
			return c.strip(run, works[i+1:]), nil
		}}
	}
	return c.forceCluster(run)
}

// forceCluster strips the finalizer of the Cluster.
func (c *commands) forceCluster(run *command) *step {
	return &step{name: "strips the finalizer of the Cluster", do: func(ctx context.Context) (*step, error) {
		cluster := &clusterv1alpha1.Cluster{}
		err := c.karmada.client.Get(ctx, types.NamespacedName{Name: run.cluster}, cluster)
		if err == nil && controllerutil.RemoveFinalizer(cluster, util.ClusterControllerFinalizer) {
			err = c.karmada.client.Update(ctx, cluster)
		}
		if client.IgnoreNotFound(err) != nil {
			return c.end(run, fmt.Errorf("stripping the finalizer of Cluster %s: %w", run.cluster, err))
		}
		return c.end(run, nil)
	}}
}
