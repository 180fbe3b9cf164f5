package topologies

import (
	"fmt"
	"math/rand/v2"
)

// generateRandom draws the nodes uniformly in the area, all of them anew until
// the mesh is connected (survivable), which keeps the distribution that of
// random geometric graphs under that condition.
func generateRandom(p GenerateParams, rng *rand.Rand) (*Topology, error) {
	return p.redraw(fmt.Sprintf("random%d", p.Nodes), rng, func(pl *placer) error {
		for range p.Nodes {
			if err := pl.place(0, 0, p.Width, p.Height, nil); err != nil {
				return err
			}
		}
		return nil
	})
}
