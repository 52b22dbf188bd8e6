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
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/util/wait"
)

// traffic holds the counts or sums of an API server or a client, by key.
type traffic map[string]float64

// minus returns what was added since before.
func (t traffic) minus(before traffic) traffic {
	difference := traffic{}
	for key, value := range t {
		if added := value - before[key]; added != 0 {
			difference[key] = added
		}
	}
	return difference
}

// sum adds up the values of the keys that a function chooses.
func (t traffic) sum(chosen func(key string) bool) float64 {
	total := 0.0
	for key, value := range t {
		if chosen(key) {
			total += value
		}
	}
	return total
}

// writeVerbs are the verbs of writes, as the API server's metrics name them.
var writeVerbs = map[string]bool{"POST": true, "PUT": true, "PATCH": true, "APPLY": true, "DELETE": true, "DELETECOLLECTION": true}

// background are resources that are written whether or not anything is propagated.
var background = map[string]bool{
	"leases": true, "clusters": true, "clusters/status": true, "endpoints": true, "endpointslices": true,
	"events": true, "tokenreviews": true, "subjectaccessreviews": true, "apiservices/status": true, "apiservices": true,
}

// writes returns the API server's counts of writes. The key of a successful write is
// like "POST works", and that of a failed one has the prefix "refused" and the
// status.
func (g *ground) writes(ctx context.Context) (traffic, error) {
	families, err := scrape(ctx, g.http, g.config.Host+"/metrics", "apiserver_request_total")
	if err != nil {
		return nil, err
	}
	counts := traffic{}
	for _, metric := range families["apiserver_request_total"].GetMetric() {
		labels := labelsOf(metric)
		resource := labels["resource"]
		if labels["subresource"] != "" {
			resource += "/" + labels["subresource"]
		}
		if !writeVerbs[labels["verb"]] || background[resource] || resource == "" {
			continue
		}
		key := labels["verb"] + " " + resource
		if !strings.HasPrefix(labels["code"], "2") {
			key = "refused " + labels["code"] + " " + key
		}
		counts[key] += metric.GetCounter().GetValue()
	}
	return counts, nil
}

// bytes returns the API server's sums of the sizes of request bodies, by keys like
// "create works".
func (g *ground) bytes(ctx context.Context) (traffic, error) {
	const name = "apiserver_request_body_size_bytes"
	families, err := scrape(ctx, g.http, g.config.Host+"/metrics", name)
	if err != nil {
		return nil, err
	}
	sums := traffic{}
	for _, metric := range families[name].GetMetric() {
		labels := labelsOf(metric)
		if !background[labels["resource"]] {
			sums[labels["verb"]+" "+labels["resource"]] += metric.GetHistogram().GetSampleSum()
		}
	}
	return sums, nil
}

// ownWrites returns a controller's own count of the writes that it has sent.
func ownWrites(ctx context.Context, address string) (float64, error) {
	const name = "rest_client_requests_total"
	families, err := scrape(ctx, http.DefaultClient, "http://"+address+"/metrics", name)
	if err != nil {
		return 0, err
	}
	total := 0.0
	for _, metric := range families[name].GetMetric() {
		if method := labelsOf(metric)["method"]; method != http.MethodGet {
			total += metric.GetCounter().GetValue()
		}
	}
	return total, nil
}

func labelsOf(metric *dto.Metric) map[string]string {
	labels := make(map[string]string, len(metric.GetLabel()))
	for _, pair := range metric.GetLabel() {
		labels[pair.GetName()] = pair.GetValue()
	}
	return labels
}

// scrape reads some metrics. It does not parse the others, because an API server has
// tens of thousands of lines.
func scrape(ctx context.Context, client *http.Client, url string, names ...string) (map[string]*dto.MetricFamily, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", url, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", url, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("reading %s: %s", url, response.Status)
	}
	kept := &strings.Builder{}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		for _, name := range names {
			if strings.HasPrefix(lines.Text(), name) || strings.HasPrefix(lines.Text(), "# TYPE "+name+" ") {
				kept.WriteString(lines.Text() + "\n")
			}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading %s: %w", url, err)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(kept.String()))
	if err != nil {
		return nil, fmt.Errorf("parsing %s: %w", url, err)
	}
	return families, nil
}

// quiet waits until nothing has been written for a while.
func (g *ground) quiet(ctx context.Context, still time.Duration) error {
	last, since := traffic{}, time.Now()
	// The request is expensive for the API server.
	const pause = 500 * time.Millisecond
	err := wait.PollUntilContextTimeout(ctx, min(still/2, pause), longPatience, true, func(ctx context.Context) (bool, error) {
		now, err := g.writes(ctx)
		if err != nil {
			return false, err
		}
		if !maps.Equal(last, now) {
			last, since = now, time.Now()
		}
		return time.Since(since) >= still, nil
	})
	if err != nil {
		return fmt.Errorf("waiting until nothing is written: %w", err)
	}
	return nil
}

// download copies the response of a URL.
func download(ctx context.Context, client *http.Client, url string, to io.Writer) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return fmt.Errorf("reading %s: %w", url, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("reading %s: %w", url, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("reading %s: %s", url, response.Status)
	}
	_, err = io.Copy(to, response.Body)
	return err
}
