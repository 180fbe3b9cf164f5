package topologies

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"churnbed/node/core"
)

// Room is a rectangle with its lower left corner at X, Y (metres) and the
// number of nodes in it.
type Room struct {
	X, Y, W, H float64
	Count      int
}

// ParseRoom reads a room "x,y,w,h:count", metres.
func ParseRoom(s string) (Room, error) {
	fail := func() (Room, error) {
		return Room{}, fmt.Errorf("room %q: want x,y,width,height:count in metres, as 0,0,5,5:10", s)
	}
	place, count, ok := strings.Cut(s, ":")
	parts := strings.Split(place, ",")
	if !ok || len(parts) != 4 {
		return fail()
	}
	var v [4]float64
	for i, part := range parts {
		f, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil {
			return fail()
		}
		v[i] = f
	}
	n, err := strconv.Atoi(strings.TrimSpace(count))
	if err != nil {
		return fail()
	}
	r := Room{X: v[0], Y: v[1], W: v[2], H: v[3], Count: n}
	if err := r.check(); err != nil {
		return Room{}, err
	}
	return r, nil
}

// String formats r as ParseRoom reads it.
func (r Room) String() string {
	f := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	return fmt.Sprintf("%s,%s,%s,%s:%d", f(r.X), f(r.Y), f(r.W), f(r.H), r.Count)
}

func (r Room) check() error {
	for _, v := range [...]float64{r.X, r.Y} {
		if !(v >= -maxCoordinate && v <= maxCoordinate) {
			return fmt.Errorf("rooms %s: corner %v: want a finite number of metres", r, v)
		}
	}
	if !(r.W > 0 && r.W <= maxCoordinate && r.H > 0 && r.H <= maxCoordinate) {
		return fmt.Errorf("rooms %s: want width and height above 0 metres", r)
	}
	if r.Count < 1 {
		return fmt.Errorf("rooms %s: want at least 1 node in a room", r)
	}
	return nil
}

// defaultRooms are four rooms in the corners and one in the middle, each a
// third of the area's sides.
func defaultRooms(width, height float64, nodes int) []Room {
	w, h := width/3, height/3
	at := [...][2]float64{{0, 0}, {2 * w, 0}, {w, h}, {0, 2 * h}, {2 * w, 2 * h}}
	var rooms []Room
	for i, c := range at {
		if n := nodes*(i+1)/len(at) - nodes*i/len(at); n > 0 {
			rooms = append(rooms, Room{X: c[0], Y: c[1], W: w, H: h, Count: n})
		}
	}
	return rooms
}

// generateCluster draws the nodes uniformly in their rooms, all of them anew
// until the mesh is connected. Nodes carry the tag room0, room1, ...
func generateCluster(p GenerateParams, rng *rand.Rand) (*Topology, error) {
	rooms := p.Rooms
	if len(rooms) == 0 {
		rooms = defaultRooms(p.Width, p.Height, p.Nodes)
	}
	total := 0
	for _, r := range rooms {
		// A count near the largest int must not wrap the sum round.
		if total += min(r.Count, core.MaxNodes); total > core.MaxNodes {
			return nil, fmt.Errorf("rooms hold more than %d nodes", core.MaxNodes)
		}
	}
	if p.Nodes != 0 && p.Nodes != total {
		return nil, fmt.Errorf("nodes %d: the rooms hold %d; leave nodes out or make them equal", p.Nodes, total)
	}
	return p.redraw(fmt.Sprintf("cluster%d", total), rng, func(pl *placer) error {
		for i, r := range rooms {
			tags := []string{"room" + strconv.Itoa(i)}
			for range r.Count {
				if err := pl.place(r.X, r.Y, r.W, r.H, tags); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
