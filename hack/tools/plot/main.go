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

// Command plot draws the results of hack/bench and hack/soak. It reads results.json in
// a folder and writes throughput.svg and growth.svg next to it, or reads soak.csv and
// writes soak.svg.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// sample contains the fields of a sample that are drawn.
type sample struct {
	Case      string             `json:"case"`
	Race      string             `json:"race"`
	Phase     string             `json:"phase"`
	Contender string             `json:"contender"`
	Objects   int                `json:"objects"`
	Clusters  int                `json:"clusters"`
	Seconds   float64            `json:"seconds"`
	Confirmed float64            `json:"confirmedSeconds"`
	Bytes     map[string]float64 `json:"bytes"`
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: plot FOLDER")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "plot:", err)
		os.Exit(1)
	}
}

func run(folder string) error {
	if samples := filepath.Join(folder, "soak.csv"); exists(samples) {
		return soak(samples, filepath.Join(folder, "soak.svg"))
	}
	raw, err := os.ReadFile(filepath.Join(folder, "results.json"))
	if err != nil {
		return fmt.Errorf("reading the results: %w", err)
	}
	results := struct {
		Samples []sample `json:"samples"`
	}{}
	if err := json.Unmarshal(raw, &results); err != nil {
		return fmt.Errorf("reading the results: %w", err)
	}
	return errors.Join(
		throughput(results.Samples, filepath.Join(folder, "throughput.svg")),
		growth(results.Samples, filepath.Join(folder, "growth.svg")),
	)
}

// contenders are drawn side by side, in colors that people with red-green color
// blindness can distinguish.
var contenders = []struct {
	name  string
	color color.RGBA
}{
	{"bare limit", color.RGBA{R: 0x99, G: 0x99, B: 0x99, A: 0xff}},
	{"DirectPropagation", color.RGBA{R: 0x00, G: 0x72, B: 0xb2, A: 0xff}},
	{"PropagationPolicy", color.RGBA{R: 0xe6, G: 0x9f, B: 0x00, A: 0xff}},
}

// median returns the median of a number over the chosen samples, or 0 if there are
// none.
func median(samples []sample, chosen func(sample) bool, number func(sample) float64) float64 {
	values := []float64{}
	for _, s := range samples {
		if chosen(s) {
			values = append(values, number(s))
		}
	}
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// throughput draws the number of Works written per second when a load is created.
func throughput(samples []sample, path string) error {
	races := []string{}
	for _, s := range samples {
		if s.Case != "g" && s.Case != "h" && s.Phase == "create" && !slices.Contains(races, s.Race) {
			races = append(races, s.Race)
		}
	}
	if len(races) == 0 {
		return nil // none of these cases was run
	}
	p := plot.New()
	p.Title.Text = "Works written a second, on creation (median)"
	p.Y.Label.Text = "Works/s"
	p.Y.Min = 0
	p.Legend.Top = true
	const width = 14
	for i, c := range contenders {
		values := make(plotter.Values, len(races))
		for r, race := range races {
			values[r] = median(samples,
				func(s sample) bool { return s.Race == race && s.Phase == "create" && s.Contender == c.name },
				func(s sample) float64 { return float64(s.Objects*s.Clusters) / s.Seconds })
		}
		bars, err := plotter.NewBarChart(values, vg.Points(width))
		if err != nil {
			return fmt.Errorf("drawing %s: %w", c.name, err)
		}
		bars.Color, bars.LineStyle.Width = c.color, 0
		bars.Offset = vg.Points(float64((i - 1) * width))
		p.Add(bars)
		p.Legend.Add(c.name, bars)
	}
	p.Y.Max *= 1.25 // room for the legend
	names := make([]string, len(races))
	for i, race := range races {
		names[i] = strings.Replace(race, ", ", "\n", 1)
	}
	p.NominalX(names...)
	return save(p, vg.Length(len(races))*vg.Points(110)+vg.Points(80), path)
}

// growth draws time and bytes against the number of Works.
func growth(samples []sample, path string) error {
	p := plot.New()
	p.Title.Text = "Growth, create: 1 is the smallest size"
	p.X.Label.Text, p.Y.Label.Text = "size", "cost"
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.LogTicks{Prec: -1}, plot.LogTicks{Prec: -1}
	p.Legend.Top, p.Legend.Left = true, true
	drawn := 0
	for _, line := range lines() {
		points := line.points(samples)
		if len(points) < 2 {
			continue
		}
		path, marks, err := plotter.NewLinePoints(points)
		if err != nil {
			return fmt.Errorf("drawing %s: %w", line.name, err)
		}
		path.Color, marks.Color = line.color, line.color
		path.Width = vg.Points(1.5)
		p.Add(path, marks)
		p.Legend.Add(line.name, path, marks)
		drawn++
	}
	if drawn == 0 {
		return nil // the case was not run
	}
	proportion := plotter.NewFunction(func(x float64) float64 { return x })
	proportion.Dashes = []vg.Length{vg.Points(3), vg.Points(3)}
	p.Add(proportion)
	p.Legend.Add("in proportion", proportion)
	return save(p, vg.Points(480), path)
}

// line is something that grows.
type line struct {
	name   string
	color  color.RGBA
	grows  func(sample) bool // whether a sample is on the line
	number func(sample) float64
}

func lines() []line {
	seconds := func(s sample) float64 { return s.Confirmed }
	bytes := func(s sample) float64 {
		sum := 0.0
		for _, sent := range s.Bytes {
			sum += sent
		}
		return sum
	}
	objects := func(s sample) bool { return s.Case == "g" && s.Phase == "create" && s.Objects > 1 }
	clusters := func(s sample) bool { return s.Case == "g" && s.Phase == "create" && s.Objects == 1 }
	return []line{
		{"objects: time until Ready", color.RGBA{R: 0x00, G: 0x72, B: 0xb2, A: 0xff}, objects, seconds},
		{"objects: bytes", color.RGBA{R: 0x56, G: 0xb4, B: 0xe9, A: 0xff}, objects, bytes},
		{"clusters: time until Ready", color.RGBA{R: 0xd5, G: 0x5e, B: 0x00, A: 0xff}, clusters, seconds},
		{"clusters: bytes", color.RGBA{R: 0xe6, G: 0x9f, B: 0x00, A: 0xff}, clusters, bytes},
	}
}

// points returns the median for each size, relative to the smallest size.
func (l line) points(samples []sample) plotter.XYs {
	sizes := []int{}
	for _, s := range samples {
		if size := s.Objects * s.Clusters; l.grows(s) && !slices.Contains(sizes, size) {
			sizes = append(sizes, size)
		}
	}
	slices.Sort(sizes)
	points := make(plotter.XYs, 0, len(sizes))
	for _, size := range sizes {
		cost := median(samples, func(s sample) bool { return l.grows(s) && s.Objects*s.Clusters == size }, l.number)
		points = append(points, plotter.XY{X: float64(size), Y: cost})
	}
	for i := len(points) - 1; i >= 0; i-- {
		points[i] = plotter.XY{X: points[i].X / points[0].X, Y: points[i].Y / points[0].Y}
	}
	return points
}

func save(p *plot.Plot, width vg.Length, path string) error {
	if err := p.Save(width, vg.Points(320), path); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
