package cli

import "github.com/seed-7aedc3ff/memdb/memory"

// The two people of the demo's conversation.
const (
	lena  = "Lena"
	oskar = "Oskar"
)

// turn is one utterance of the conversation, so many days ago.
type turn struct {
	days    int
	speaker string
	text    string
}

// talk is the conversation: five months in the life of a bookbinder and a
// walker, made up for the demo.
var talk = []turn{
	{150, lena, "I signed the lease for the workshop on Canal Street today!"},
	{150, oskar, "Is that the old bakery with the green door?"},
	{150, lena, "Yes. The presses fit where the ovens stood."},
	{143, oskar, "I am going to walk the coast path, all 420 kilometres of it."},
	{143, lena, "With Pixel? He is eleven, and his hips hurt when it rains."},
	{143, oskar, "No, my sister in Ghent looks after Pixel while I am away."},
	{128, lena, "First commission: a poet wants forty books bound in linen."},
	{128, oskar, "Which colour did she choose?"},
	{128, lena, "Indigo, with the title in silver. She pays 35 euros a copy."},
	{115, oskar, "My knee hurts after 18 kilometres with the full pack."},
	{115, lena, "Go and see Dr. Amrani, she mended my shoulder in a month."},
	{115, oskar, "I am booked with her on Thursday at nine."},
	{97, lena, "The guillotine broke. The blade jammed and the motor smoked."},
	{97, oskar, "Can it be repaired, or do you need another one?"},
	{97, lena, "Another one. A used machine from Leipzig costs 2,400 euros."},
	{80, oskar, "Dr. Amrani lets me walk if I keep the pack under nine kilos."},
	{80, lena, "Then leave the camera at home, that is a kilo and a half."},
	{80, oskar, "Never the camera! I bought a lighter tent instead."},
	{61, lena, "I am allergic to the new glue. My hands itch all night."},
	{61, oskar, "Wear gloves, or go back to wheat paste."},
	{61, lena, "Wheat paste it is. It dries slowly, but nobody sneezes."},
	{40, oskar, "Day one on the coast path: rain, seals, and no phone signal."},
	{31, lena, "The poet's books are done. She cried when she saw the silver."},
	{31, oskar, "Day nine: 204 kilometres behind me, and the knee holds."},
	{24, lena, "Your sister sent a photo: Pixel sleeps on her sofa."},
	{21, oskar, "I made it! 420 kilometres in nineteen days."},
	{14, lena, "The opening party of the workshop is on Saturday at six."},
	{14, oskar, "I will be there, and so will Pixel."},
	{3, oskar, "My present is an album: a photo of every harbour on the path."},
	{1, lena, "Then I will bind it in sailcloth."},
}

// talkIndexedText are the fields that are searched along with the turns.
func talkIndexedText() []memory.IndexedField {
	return []memory.IndexedField{{Field: "metadata.speaker", Weight: 1}, {Field: "event_time", Weight: 1}}
}
