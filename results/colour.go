package results

import "image/color"

// colours are the seven of Okabe and Ito that show on white, which colour-blind
// people can tell apart, and an olive.
var colours = [...]color.NRGBA{
	{0, 114, 178, 255},
	{213, 94, 0, 255},
	{0, 158, 115, 255},
	{204, 121, 167, 255},
	{86, 180, 233, 255},
	{230, 159, 0, 255},
	{0, 0, 0, 255},
	{140, 140, 60, 255},
}

// Colour returns the colour of series i (0 or more) of a plot; after eight
// they come again.
func Colour(i int) color.NRGBA { return colours[i%len(colours)] }
