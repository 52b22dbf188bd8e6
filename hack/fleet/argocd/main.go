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

// Command argocd contains the servers of Argo CD that a fleet needs. The name by
// which it is called selects the server. It has its own module with Argo CD's
// replace directives, because Argo CD needs older Kubernetes libraries than the
// servers of the fleet.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	applicationcontroller "github.com/argoproj/argo-cd/v3/cmd/argocd-application-controller/commands"
	reposerver "github.com/argoproj/argo-cd/v3/cmd/argocd-repo-server/commands"
	"github.com/argoproj/argo-cd/v3/util/log"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
)

var components = map[string]func() *cobra.Command{
	"argocd-application-controller": applicationcontroller.NewCommand,
	"argocd-repo-server":            reposerver.NewCommand,
}

func main() {
	name := filepath.Base(os.Args[0])
	newCommand, known := components[name]
	if !known {
		fmt.Fprintf(os.Stderr, "%s: call this program by the name of one of its components: argocd-application-controller, argocd-repo-server\n", name)
		os.Exit(2)
	}
	klog.SetLogger(log.NewLogrusLogger(log.NewWithCurrentConfig()))
	if newCommand().Execute() != nil { // the command has printed the error
		os.Exit(1)
	}
}
