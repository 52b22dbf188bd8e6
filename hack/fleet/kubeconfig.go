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
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// writeKubeconfig writes the admin kubeconfig of a control plane. It embeds the
// certificates, so that the file works in any folder.
func writeKubeconfig(path, pki, context string, port int) error {
	var files [3][]byte
	for i, name := range []string{"ca.crt", "admin.crt", "admin.key"} {
		data, err := os.ReadFile(filepath.Join(pki, name))
		if err != nil {
			return fmt.Errorf("making the kubeconfig of %s: %w", context, err)
		}
		files[i] = data
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[context] = &clientcmdapi.Cluster{
		Server:                   httpsURL(port, ""),
		CertificateAuthorityData: files[0],
	}
	config.AuthInfos[context] = &clientcmdapi.AuthInfo{
		ClientCertificateData: files[1],
		ClientKeyData:         files[2],
	}
	config.Contexts[context] = &clientcmdapi.Context{Cluster: context, AuthInfo: context}
	config.CurrentContext = context
	data, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("making the kubeconfig of %s: %w", context, err)
	}
	return writeFile(path, data, 0o600)
}
