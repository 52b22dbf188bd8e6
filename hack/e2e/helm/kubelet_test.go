//go:build e2e_helm

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

package helm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karmada-direct/karmada-direct/hack/testbed/machine"
)

// runningPod is a Pod whose containers run as processes.
type runningPod struct {
	t   *testing.T
	pod *corev1.Pod
	dir string
	// volumes holds the current folder of each volume.
	volumes map[string]string
	log     string

	mu       sync.Mutex
	process  *exec.Cmd
	ended    chan struct{}
	restarts int
	stopping bool
}

// prepare creates the volumes, as a kubelet does before it starts containers.
func prepare(t *testing.T, pod *corev1.Pod) *runningPod {
	t.Helper()
	dir := t.TempDir()
	p := &runningPod{t: t, pod: pod, dir: dir, volumes: map[string]string{}, log: filepath.Join(dir, "log")}
	p.must(os.Chmod(dir, 0o755))
	for _, volume := range pod.Spec.Volumes {
		folder := filepath.Join(dir, "volumes", volume.Name)
		p.must(os.MkdirAll(folder, 0o755))
		p.volumes[volume.Name] = folder
		switch {
		case volume.Secret != nil:
			p.refresh(volume.Name)
		case volume.EmptyDir != nil:
			p.owned(folder, 0o777)
		default:
			t.Fatalf("volume %s of Pod %s has an unsupported type: %+v", volume.Name, pod.Name, volume.VolumeSource)
		}
	}
	return p
}

func (p *runningPod) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatalf("Pod %s: %v\n%s", p.pod.Name, err, p.printed())
	}
}

// printed returns the end of the containers' output.
func (p *runningPod) printed() string {
	text, _ := os.ReadFile(p.log)
	lines := strings.Split(string(text), "\n")
	return strings.Join(lines[max(0, len(lines)-40):], "\n")
}

// owned gives a file or folder to the Pod's fsGroup, as a kubelet does.
func (p *runningPod) owned(path string, mode os.FileMode) {
	p.t.Helper()
	if group := p.pod.Spec.SecurityContext.FSGroup; group != nil && os.Getuid() == 0 {
		p.must(os.Chown(path, 0, int(*group)))
	}
	p.must(os.Chmod(path, mode))
}

// refresh updates a mounted Secret to its current content. All keys change
// atomically, through one symbolic link, so readers are not disturbed.
func (p *runningPod) refresh(name string) {
	p.t.Helper()
	var source *corev1.SecretVolumeSource
	for _, volume := range p.pod.Spec.Volumes {
		if volume.Name == name {
			source = volume.Secret
		}
	}
	secret := &corev1.Secret{}
	p.must(host.Get(p.t.Context(), client.ObjectKey{Namespace: p.pod.Namespace, Name: source.SecretName}, secret))
	folder := p.volumes[name]
	version, err := os.MkdirTemp(folder, "..version-")
	p.must(err)
	p.must(os.Chmod(version, 0o755))
	for _, item := range source.Items {
		content, found := secret.Data[item.Key]
		if !found {
			p.t.Fatalf("Pod %s needs key %s of Secret %s, which does not exist: the Pod would not start", p.pod.Name, item.Key, secret.Name)
		}
		file := filepath.Join(version, item.Path)
		p.must(os.WriteFile(file, content, 0o600))
		p.owned(file, os.FileMode(*source.DefaultMode))
		link := filepath.Join(folder, item.Path)
		if _, err := os.Lstat(link); err != nil {
			p.must(os.Symlink(filepath.Join("..data", item.Path), link))
		}
	}
	next := filepath.Join(folder, "..data_tmp")
	p.must(os.Symlink(filepath.Base(version), next))
	p.must(os.Rename(next, filepath.Join(folder, "..data")))
}

// mount creates the root folder of a container with the image and the volumes that
// it mounts. The volumes are moved there until unmount is called.
func (p *runningPod) mount(container *corev1.Container) (rootfs string, command []string, unmount func()) {
	p.t.Helper()
	from := pull(p.t, container.Image)
	rootfs = filepath.Join(p.dir, "root-"+container.Name)
	p.must(os.MkdirAll(rootfs, 0o755))
	files, err := os.ReadDir(from.root)
	p.must(err)
	for _, file := range files {
		target := filepath.Join(rootfs, file.Name())
		if _, err := os.Lstat(target); err != nil {
			p.must(copyFile(filepath.Join(from.root, file.Name()), target))
		}
	}
	for _, mount := range container.VolumeMounts {
		if mount.SubPath != "" {
			p.t.Fatalf("container %s mounts %s by subPath", container.Name, mount.Name)
		}
		target := filepath.Join(rootfs, mount.MountPath)
		p.must(os.MkdirAll(filepath.Dir(target), 0o755))
		p.must(os.Rename(p.volumes[mount.Name], target))
		p.volumes[mount.Name] = target
	}
	return rootfs, from.Entrypoint, func() {
		for _, mount := range container.VolumeMounts {
			home := filepath.Join(p.dir, "volumes", mount.Name)
			p.must(os.Rename(p.volumes[mount.Name], home))
			p.volumes[mount.Name] = home
		}
	}
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o755)
}

// command returns the command for a container, with the arguments, files and user of
// the Pod and nothing from the environment of the tests.
func (p *runningPod) command(container *corev1.Container, rootfs string, entrypoint []string) *exec.Cmd {
	p.t.Helper()
	if len(container.Command) > 0 {
		entrypoint = container.Command
	}
	arguments := append(append([]string{}, entrypoint...), container.Args...)
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	p.must(err)
	p.t.Cleanup(func() { _ = log.Close() })
	fmt.Fprintf(log, "==== %s %s: %s\n", p.pod.Name, container.Name, strings.Join(arguments, " "))
	process := &exec.Cmd{Path: arguments[0], Args: arguments, Dir: "/", Env: []string{"HOSTNAME=" + p.pod.Name}, Stdout: log, Stderr: log}
	for _, variable := range container.Env {
		process.Env = append(process.Env, variable.Name+"="+variable.Value)
	}
	security := p.pod.Spec.SecurityContext
	if security == nil || security.RunAsUser == nil || security.RunAsGroup == nil || *security.RunAsUser == 0 {
		p.t.Fatalf("Pod %s does not specify a non-root user to run as: %+v", p.pod.Name, security)
	}
	uid, gid := int(*security.RunAsUser), int(*security.RunAsGroup)
	process.SysProcAttr = &syscall.SysProcAttr{Chroot: rootfs, Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() == 0 {
		process.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid), Groups: []uint32{uint32(*security.FSGroup)}} //nolint:gosec // users' numbers
	} else { // in a user namespace, the user who runs the tests is mapped to that user
		process.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		process.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: os.Getuid(), Size: 1}}
		process.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: os.Getgid(), Size: 1}}
	}
	return process
}

// initialize runs the init containers one at a time, until each has exited.
func (p *runningPod) initialize() {
	p.t.Helper()
	for i := range p.pod.Spec.InitContainers {
		p.complete(&p.pod.Spec.InitContainers[i])
	}
}

// complete runs a container until it exits, which must be with status 0.
func (p *runningPod) complete(container *corev1.Container) {
	p.t.Helper()
	rootfs, entrypoint, unmount := p.mount(container)
	defer unmount()
	process := p.command(container, rootfs, entrypoint)
	p.must(machine.OnLastingThread(process.Start))
	if err := process.Wait(); err != nil {
		p.t.Fatalf("container %s of Pod %s: %v\n%s", container.Name, p.pod.Name, err, p.printed())
	}
}

// runs runs the Pod of a Job until it is complete.
func (p *runningPod) runs() {
	p.t.Helper()
	p.initialize()
	p.complete(&p.pod.Spec.Containers[0])
}

// starts runs the init containers and starts the Pod's container, which is restarted
// whenever it exits until the Pod is stopped. It returns when the readiness probe
// succeeds.
func (p *runningPod) starts() {
	p.t.Helper()
	p.initialize()
	container := &p.pod.Spec.Containers[0]
	rootfs, entrypoint, _ := p.mount(container)
	p.launch(container, rootfs, entrypoint)
	p.t.Cleanup(p.stops)
	eventually(p.t, "Pod "+p.pod.Name+" is ready", func(ctx context.Context) error {
		return p.probe(ctx, container.ReadinessProbe)
	})
	if err := p.probe(p.t.Context(), container.LivenessProbe); err != nil {
		p.t.Errorf("Pod %s is ready, but not alive: %v", p.pod.Name, err)
	}
}

func (p *runningPod) launch(container *corev1.Container, rootfs string, entrypoint []string) {
	process := p.command(container, rootfs, entrypoint)
	p.must(machine.OnLastingThread(process.Start))
	ended, began := make(chan struct{}), time.Now()
	p.mu.Lock()
	p.process, p.ended = process, ended
	p.mu.Unlock()
	go func() {
		_ = process.Wait() // the exit status is in ProcessState
		// A kubelet also waits before it restarts a container that exits immediately.
		<-time.After(time.Second - time.Since(began))
		p.mu.Lock()
		again := !p.stopping
		if again {
			p.restarts++
		}
		p.mu.Unlock()
		if again {
			p.launch(container, rootfs, entrypoint)
		}
		close(ended)
	}()
}

// restarted returns how often the container was restarted.
func (p *runningPod) restarted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.restarts
}

// stops stops the Pod as a kubelet does: with SIGTERM, and with SIGKILL after the
// grace period.
func (p *runningPod) stops() {
	p.mu.Lock()
	if p.stopping {
		p.mu.Unlock()
		return
	}
	p.stopping = true
	process, ended := p.process, p.ended
	p.mu.Unlock()
	_ = process.Process.Signal(syscall.SIGTERM) // it may already be dead
	select {
	case <-ended:
	case <-time.After(time.Duration(*p.pod.Spec.TerminationGracePeriodSeconds) * time.Second):
		_ = process.Process.Kill()
		<-ended
		p.t.Errorf("Pod %s did not exit within its grace period", p.pod.Name)
	}
	if code := process.ProcessState.ExitCode(); code != 0 {
		p.t.Errorf("Pod %s exited with %v\n%s", p.pod.Name, process.ProcessState, p.printed())
	}
	if p.t.Failed() {
		p.t.Logf("the end of the output of Pod %s:\n%s", p.pod.Name, p.printed())
	}
}

// get sends a request to a port of the Pod, by the name of the port.
func (p *runningPod) get(ctx context.Context, port, path string) (*http.Response, error) {
	for _, there := range p.pod.Spec.Containers[0].Ports {
		if there.Name == port {
			url := fmt.Sprintf("http://127.0.0.1:%d%s", there.ContainerPort, path)
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
			if err != nil {
				return nil, err
			}
			return http.DefaultClient.Do(request)
		}
	}
	return nil, fmt.Errorf("Pod %s has no port %s", p.pod.Name, port)
}

func (p *runningPod) probe(ctx context.Context, probe *corev1.Probe) error {
	if probe == nil || probe.HTTPGet == nil {
		return errors.New("there is no such probe")
	}
	response, err := p.get(ctx, probe.HTTPGet.Port.StrVal, probe.HTTPGet.Path)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", probe.HTTPGet.Path, response.Status)
	}
	return nil
}
