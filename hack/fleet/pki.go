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
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// validity is much longer than any fleet lives.
const validity = 365 * 24 * time.Hour

// aggregatedService is the Service through which the Karmada API server reaches
// karmada-aggregated-apiserver. The certificate must contain its name.
const aggregatedService = "karmada-aggregated-apiserver"

// certificateAuthority signs the certificates of one control plane. Each control
// plane has its own, so that a credential of one is useless for another.
type certificateAuthority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// writePKI creates all keys and certificates of a control plane.
func writePKI(dir string) error {
	ca, err := newCA(dir, "ca")
	if err != nil {
		return err
	}
	if err := ca.issue("server", x509.Certificate{
		Subject:     pkix.Name{CommonName: "server"},
		DNSNames:    []string{"localhost", aggregatedService + ".karmada-system.svc", "kubernetes.default.svc"},
		IPAddresses: []net.IP{net.ParseIP(loopback)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}); err != nil {
		return err
	}
	if err := ca.issue("admin", x509.Certificate{
		Subject:     pkix.Name{CommonName: "system:admin", Organization: []string{"system:masters"}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}); err != nil {
		return err
	}
	frontProxy, err := newCA(dir, "front-proxy-ca")
	if err != nil {
		return err
	}
	if err := frontProxy.issue("front-proxy-client", x509.Certificate{
		Subject:     pkix.Name{CommonName: "front-proxy-client"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}); err != nil {
		return err
	}
	return writeServiceAccountKeys(dir)
}

func newCA(dir, name string) (*certificateAuthority, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	ca := &certificateAuthority{dir: dir, key: key, cert: &x509.Certificate{
		Subject:               pkix.Name{CommonName: filepath.Base(dir) + "-" + name},
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}}
	return ca, ca.sign(name, ca.cert, key)
}

// issue creates a key and a certificate with the given subject and usage.
func (ca *certificateAuthority) issue(name string, template x509.Certificate) error {
	key, err := newKey()
	if err != nil {
		return err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	return ca.sign(name, &template, key)
}

func (ca *certificateAuthority) sign(name string, template *x509.Certificate, key *ecdsa.PrivateKey) error {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return fmt.Errorf("making the certificate %s: %w", name, err)
	}
	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-time.Minute) // for clocks that are set back slightly
	template.NotAfter = template.NotBefore.Add(validity)
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, key.Public(), ca.key)
	if err != nil {
		return fmt.Errorf("making the certificate %s: %w", name, err)
	}
	if err := writePEM(filepath.Join(ca.dir, name+".crt"), "CERTIFICATE", der, 0o644); err != nil {
		return err
	}
	return writeKey(filepath.Join(ca.dir, name+".key"), key)
}

// writeServiceAccountKeys creates the key pair with which service account tokens are
// signed and verified.
func writeServiceAccountKeys(dir string) error {
	key, err := newKey()
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	if err := writePEM(filepath.Join(dir, "service-account.pub"), "PUBLIC KEY", der, 0o644); err != nil {
		return err
	}
	return writeKey(filepath.Join(dir, "service-account.key"), key)
}

func newKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	return key, nil
}

func writeKey(path string, key crypto.PrivateKey) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(path, "PRIVATE KEY", der, 0o600)
}

func writePEM(path, kind string, der []byte, mode os.FileMode) error {
	return writeFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode)
}
