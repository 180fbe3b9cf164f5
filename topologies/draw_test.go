package topologies

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"slices"
	"strings"
	"testing"
)

func TestDraw(t *testing.T) {
	for _, p := range []GenerateParams{
		{Kind: Random, Nodes: 1},
		{Kind: Line, Nodes: 5},
		{Kind: Grid, Nodes: 16},
		{Kind: Grid3D, Nodes: 27},
		{Kind: Random, Nodes: 64},
	} {
		t.Run(fmt.Sprintf("%s%d", p.Kind, p.Nodes), func(t *testing.T) {
			top, err := Generate(p, 1)
			if err != nil {
				t.Fatal(err)
			}
			checkDrawing(t, top)
		})
	}
	t.Run("loss", func(t *testing.T) { checkDrawing(t, everything()) })
	if err := Draw(io.Discard, everything(), "pdf", DrawOptions{}); err == nil {
		t.Error("pdf is drawn")
	}
	if err := Draw(io.Discard, &Topology{}, "svg", DrawOptions{}); err == nil {
		t.Error("nothing is drawn")
	}
}

// checkDrawing looks for every id and link in the SVG, and decodes the PNG.
func checkDrawing(t *testing.T, top *Topology) {
	t.Helper()
	var svg, again, raster bytes.Buffer
	for _, b := range []*bytes.Buffer{&svg, &again} {
		if err := Draw(b, top, "svg", DrawOptions{Title: "a title"}); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(svg.Bytes(), again.Bytes()) {
		t.Error("two drawings of one topology differ")
	}
	texts := map[string]bool{}
	dec := xml.NewDecoder(&svg)
	for {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the SVG is malformed: %v", err)
		}
		if c, ok := tok.(xml.CharData); ok {
			texts[strings.TrimSpace(string(c))] = true
		}
	}
	for i := range top.Nodes {
		if !texts[fmt.Sprint(i)] {
			t.Errorf("node %d has no id in the drawing", i)
		}
	}
	axis := "x (m)"
	if slices.ContainsFunc(top.Nodes, func(n Node) bool { return n.Z != 0 }) {
		axis = "x (m), height slanted"
	}
	if !texts["a title"] || !texts[axis] {
		t.Errorf("title or axis is missing in %v", texts)
	}
	if err := Draw(&raster, top, "png", DrawOptions{}); err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(&raster)
	if err != nil {
		t.Fatal(err)
	}
	if img.Bounds().Dx() < 400 || img.Bounds().Dy() < 100 {
		t.Errorf("the picture is %v", img.Bounds())
	}
}
