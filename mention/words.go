package mention

import "strings"

// The words by which Rules judges, folded.
var (
	titles    = set(`mr mrs ms miss dr prof professor sir madam lady lord captain sergeant president`)
	greetings = set(`hey hi hello dear thanks congrats congratulations bye goodbye welcome`)
	kin       = set(`brother sister mother father mom mum dad son daughter husband wife friend friends colleague boss cousin uncle aunt
		grandma grandpa grandmother grandfather partner girlfriend boyfriend neighbour neighbor roommate named`)
	// joints stand between the words of a name.
	joints = set(`of de la van von der den du da di del bin al`)
	// within stands before a place.
	within = set(`in near visit visited visiting across towards around via`)
	bodies = set(`inc ltd llc gmbh corp corporation company university college school bank institute foundation hospital association club
		church committee ministry department council agency society museum library party team`)
	places = set(`street avenue road park lake river mountain mountains island islands beach city county valley airport station square
		bridge bay hill hills forest canyon village town state`)
	// tells follow the name of a person: what persons do.
	tells = set(`said says told tells asked asks thinks thought likes liked loves loved wants wanted hates hated lives lived works worked
		moved went goes came comes knows knew met has had is was will prefers preferred bought made got gave took started plays played
		studies studied teaches taught married visited called wrote writes reads helped feels felt`)
	// notNames begin sentences with a capital, or have one without being a name.
	notNames = set(`i i'm i've i'd i'll it's that's there's what's let's you're we're they're he's she's don't didn't can't won't isn't
		a an the this that these those my your his her its our their he she it we you they me us him them
		and or but so if when where who what which why how while because since after before then than though although once until
		yes no not yeah yep nope ok okay well oh wow hey hi hello dear thanks thank please sorry sure great good nice cool awesome
		amazing absolutely definitely exactly totally really maybe perhaps actually also just still even only now today tomorrow
		yesterday tonight here there always never often sometimes recently lately finally hopefully fortunately unfortunately
		is are was were am be been do does did have has had can could will would shall should may might must
		in on at by for from to of with without about as into over under between during through out up down off again
		all any both each few many more most much other some such one two three first second last next every another
		monday tuesday wednesday thursday friday saturday sunday january february march april june july august september october
		november december congrats congratulations bye goodbye welcome glad happy excited good haha lol omg aw aww ah um hmm
		keep take make let go come get see look think know hope wish remember sounds looks seems feel looking going having being
		speaking talking thinking guess don gonna wanna gotta anyway besides however instead meanwhile otherwise plus`)
)

func set(words string) map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		m[w] = true
	}
	return m
}
