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
	"encoding/csv"
	"errors"
	"fmt"
	"image/color"
	"os"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// soak draws each column of samples against the first one, which is the time in
// seconds, in a plot of its own.
func soak(samples, path string) error {
	file, err := os.Open(samples)
	if err != nil {
		return fmt.Errorf("reading the samples: %w", err)
	}
	records, err := csv.NewReader(file).ReadAll()
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("reading the samples: %w", err)
	}
	if len(records) < 2 {
		return fmt.Errorf("%s has no samples", samples)
	}
	const across = 3
	down := (len(records[0]) - 1 + across - 1) / across
	plots := make([][]*plot.Plot, down)
	for i := range plots {
		plots[i] = make([]*plot.Plot, across)
	}
	for column := 1; column < len(records[0]); column++ {
		p, err := overTime(records, column)
		if err != nil {
			return err
		}
		plots[(column-1)/across][(column-1)%across] = p
	}
	canvas := vgsvg.New(vg.Points(across*230), vg.Points(float64(down)*170))
	tiles := draw.Tiles{Rows: down, Cols: across, PadX: vg.Points(12), PadY: vg.Points(12), PadTop: vg.Points(4), PadRight: vg.Points(8)}
	canvases := plot.Align(plots, tiles, draw.New(canvas))
	for row := range plots {
		for column, p := range plots[row] {
			if p != nil {
				p.Draw(canvases[row][column])
			}
		}
	}
	out, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	_, err = canvas.WriteTo(out)
	return errors.Join(err, out.Close())
}

// overTime plots a column of the records, of which the first one has the names.
func overTime(records [][]string, column int) (*plot.Plot, error) {
	const secondsPerMinute = 60
	points := make(plotter.XYs, 0, len(records)-1)
	for _, record := range records[1:] {
		x, err := strconv.ParseFloat(record[0], 64)
		y, errY := strconv.ParseFloat(record[column], 64)
		if err := errors.Join(err, errY); err != nil {
			return nil, fmt.Errorf("reading the samples: %w", err)
		}
		points = append(points, plotter.XY{X: x / secondsPerMinute, Y: y})
	}
	line, err := plotter.NewLine(points)
	if err != nil {
		return nil, fmt.Errorf("drawing %s: %w", records[0][column], err)
	}
	line.Color = color.RGBA{R: 0x00, G: 0x72, B: 0xb2, A: 0xff}
	p := plot.New()
	p.Title.Text = strings.ReplaceAll(records[0][column], "_", " ")
	p.X.Label.Text = "minutes"
	p.Add(line)
	p.Y.Min = 0
	p.Y.Max *= 1.2
	return p, nil
}
