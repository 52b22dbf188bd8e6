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

// Command karmada-aggregated-apiserver is built as in upstream. It cannot be part of
// the components program: its feature gates collide with those of kube-apiserver on
// the process-wide default gate, and it panics on the first Cluster.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/karmada-io/karmada/cmd/aggregated-apiserver/app"
)

func main() {
	code := cli.Run(app.NewAggregatedApiserverCommand(ctrl.SetupSignalHandler()))
	logs.FlushLogs()
	os.Exit(code)
}
