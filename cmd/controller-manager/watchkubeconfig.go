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
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/clientcmd"
)

// kubeconfigInterval is how often to check the kubeconfig. The kubelet takes up to
// a minute to update a mounted Secret, so a few more seconds do not matter.
const kubeconfigInterval = 5 * time.Second

// kubeconfigWatch checks whether the kubeconfig that the process was started with
// has changed. A running client never reads its certificates, its CA or its address
// again.
type kubeconfigWatch struct {
	files    []string
	load     func() error
	interval time.Duration
	log      logr.Logger
	// started is the digest of the files when the process read them.
	started [sha256.Size]byte
	// refused is the digest of the last content that could not be loaded.
	refused [sha256.Size]byte
}

// watchKubeconfig remembers the kubeconfig as it is now.
func (o *options) watchKubeconfig(log logr.Logger) *kubeconfigWatch {
	w := &kubeconfigWatch{
		files:    clientcmd.NewDefaultClientConfigLoadingRules().GetLoadingPrecedence(),
		interval: kubeconfigInterval,
		log:      log,
	}
	if o.kubeconfig != "" {
		w.files = []string{o.kubeconfig}
	}
	w.load = func() error {
		_, err := o.restConfig()
		return err
	}
	// The client reads certificates and tokens in separate files again, but not its
	// CA.
	if config, err := o.restConfig(); err == nil && config.CAFile != "" {
		w.files = append(w.files, config.CAFile)
	}
	w.started = digest(w.files)
	return w
}

// untilChanged returns a context that ends with the given one, or when the
// kubeconfig has changed to one that can be loaded. If it cannot be loaded, the
// process continues with the old one.
func (w *kubeconfigWatch) untilChanged(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		ticker := time.NewTicker(w.interval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if w.changed() {
				w.log.Info("The kubeconfig has changed; exiting, to be restarted with the new one")
				cancel()
				return
			}
		}
	}()
	return ctx, cancel
}

// changed reports whether the kubeconfig has changed and can be loaded.
func (w *kubeconfigWatch) changed() bool {
	now := digest(w.files)
	if now == w.started || now == w.refused {
		return false
	}
	if err := w.load(); err != nil {
		w.log.Error(err, "The kubeconfig has changed, but cannot be loaded; continuing with the old one")
		w.refused = now
		return false
	}
	return true
}

// digest is a hash of the content of files, and of which of them exist.
func digest(files []string) [sha256.Size]byte {
	hash := sha256.New()
	for _, name := range files {
		content, err := os.ReadFile(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			_, _ = io.WriteString(hash, "absent\n")
		case err != nil:
			_, _ = io.WriteString(hash, "unreadable\n")
		default:
			fmt.Fprintf(hash, "%d bytes\n%s", len(content), content)
		}
	}
	return [sha256.Size]byte(hash.Sum(nil))
}
