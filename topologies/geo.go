package topologies

import (
	"math"
	"slices"
)

// earthRadius is the mean radius of the earth in metres (IUGG).
const earthRadius = 6_371_008.8

// radian is the radians of a degree.
const radian = math.Pi / 180

// maxSpread bounds, in metres, how far a node of a city map may lie from the
// middle of all: some have latitude and longitude exchanged.
const maxSpread = 500_000

// dropFar unplaces nodes (X longitude, Y latitude, degrees) beyond maxSpread
// from the medians, and returns their number.
func dropFar(nodes []Node, placed []bool) int {
	var lats, lons []float64
	for i, n := range nodes {
		if placed[i] {
			lats, lons = append(lats, n.Y), append(lons, n.X)
		}
	}
	if len(lats) == 0 {
		return 0
	}
	slices.Sort(lats)
	slices.Sort(lons)
	lat, lon := lats[len(lats)/2], lons[len(lons)/2]
	far := 0
	for i, n := range nodes {
		dy := (n.Y - lat) * radian * earthRadius
		dx := (n.X - lon) * radian * earthRadius * math.Cos(lat*radian)
		if placed[i] && math.Hypot(dx, dy) > maxSpread {
			placed[i] = false
			far++
		}
	}
	return far
}

// project turns latitude (y) and longitude (x) of the placed nodes, degrees,
// into metres east and north of their south-west corner: equirectangular
// around the median latitude, within 1 % over a city.
func project(nodes []Node, placed []bool) {
	var lats []float64
	west, south := math.Inf(1), math.Inf(1)
	for i, n := range nodes {
		if placed[i] {
			lats = append(lats, n.Y)
			west, south = min(west, n.X), min(south, n.Y)
		}
	}
	if len(lats) == 0 {
		return
	}
	slices.Sort(lats)
	shrink := math.Cos(lats[len(lats)/2] * radian)
	for i := range nodes {
		if placed[i] {
			nodes[i].X = centimetres((nodes[i].X - west) * radian * earthRadius * shrink)
			nodes[i].Y = centimetres((nodes[i].Y - south) * radian * earthRadius)
		}
	}
}

// centimetres rounds v to them: maps are no better, and files stay readable.
func centimetres(v float64) float64 { return math.Round(v*100) / 100 }
