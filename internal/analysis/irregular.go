package analysis

import "strings"

// irregularForms are English words whose forms the stemmer does not bring together, one group a line: the word, and its
// forms. Forms that are as often another word are left out: a rose, a saw, leaves, lives.
const irregularForms = `
	arise arose arisen
	awake awoke awoken
	babysit babysat
	bear borne
	beat beaten
	become became
	befall befell befallen
	begin began begun
	behold beheld
	bend bent
	beseech besought
	bid bade bidden
	bite bitten
	bleed bled
	blow blew blown
	break broke broken
	breastfeed breastfed
	breed bred
	bring brought
	build built
	burn burnt
	buy bought
	catch caught
	choose chose chosen
	cling clung
	come came
	creep crept
	deal dealt
	dig dug
	draw drew drawn
	dream dreamt
	drink drank drunk
	drive drove driven
	dwell dwelt
	eat ate eaten
	fall fell fallen
	feed fed
	feel felt
	fight fought
	find found
	flee fled
	fling flung
	fly flew flown
	forbid forbade forbidden
	foresee foresaw foreseen
	foretell foretold
	forget forgot forgotten
	forgive forgave forgiven
	forsake forsook forsaken
	freeze froze frozen
	get got gotten
	ghostwrite ghostwrote ghostwritten
	give gave given
	go went gone goes
	grow grew grown
	hang hung
	hear heard
	hide hid hidden
	hold held
	interweave interwove interwoven
	keep kept
	kneel knelt
	know knew known
	lay laid
	lead led
	lean leant
	leap leapt
	learn learnt
	leave left
	lend lent
	lie lain
	light lit
	lose lost
	make made
	mean meant
	meet met
	mislead misled
	misspell misspelt
	mistake mistook mistaken
	misunderstand misunderstood
	mow mown
	outdo outdid outdone
	outgrow outgrew outgrown
	outrun outran
	outsell outsold
	overcome overcame
	overdo overdid overdone
	overdraw overdrew overdrawn
	overeat overate overeaten
	overfeed overfed
	overhang overhung
	overhear overheard
	override overrode overridden
	oversee oversaw overseen
	oversleep overslept
	overspend overspent
	overtake overtook overtaken
	overthrow overthrew overthrown
	partake partook partaken
	pay paid
	prepay prepaid
	prove proven
	rebuild rebuilt
	redo redid redone
	remake remade
	repay repaid
	rerun reran
	resell resold
	retake retook retaken
	retell retold
	rethink rethought
	rewind rewound
	rewrite rewrote rewritten
	ride rode ridden
	ring rang rung
	rise risen
	run ran
	say said
	see saw seen
	seek sought
	sell sold
	send sent
	sew sewn
	shake shook shaken
	shear shorn
	shine shone
	shoot shot
	show shown
	shrink shrank shrunk
	sing sang sung
	sink sank sunk
	sit sat
	slay slain
	sleep slept
	slide slid
	sling slung
	slink slunk
	smell smelt
	smite smote smitten
	sow sown
	speak spoke spoken
	speed sped
	spell spelt
	spend spent
	spill spilt
	spin spun
	spit spat
	spoil spoilt
	spring sprang sprung
	stand stood
	steal stole stolen
	stick stuck
	sting stung
	stink stank stunk
	strew strewn
	strike struck stricken
	string strung
	strive strove striven
	sunburn sunburnt
	swear swore sworn
	sweep swept
	swell swollen
	swim swam swum
	swing swung
	take took taken
	teach taught
	tear tore torn
	tell told
	think thought
	throw threw thrown
	tread trod trodden
	undergo underwent undergone
	underlie underlain
	underpay underpaid
	understand understood
	undertake undertook undertaken
	undo undid undone
	unlearn unlearnt
	unwind unwound
	uphold upheld
	wake woke woken
	waylay waylaid
	wear wore worn
	weave wove woven
	weep wept
	win won
	withdraw withdrew withdrawn
	withhold withheld
	withstand withstood
	wring wrung
	write wrote written

	addendum addenda
	alumnus alumni
	analysis analyses
	appendix appendices
	aquarium aquaria
	automaton automata
	bacterium bacteria
	bookshelf bookshelves
	bus buses
	businessman businessmen
	businesswoman businesswomen
	cactus cacti
	calf calves
	chairman chairmen
	child children
	codex codices
	craftsman craftsmen
	crisis crises
	criterion criteria
	curriculum curricula
	diagnosis diagnoses
	dormouse dormice
	elf elves
	ellipsis ellipses
	emphasis emphases
	erratum errata
	eyetooth eyeteeth
	fireman firemen
	fisherman fishermen
	focus foci
	foot feet
	forefoot forefeet
	fulcrum fulcra
	fungus fungi
	gas gases
	gentleman gentlemen
	godchild godchildren
	goose geese
	grandchild grandchildren
	half halves
	hoof hooves
	housewife housewives
	hypothesis hypotheses
	index indices
	knife knives
	layman laymen
	lens lenses
	loaf loaves
	locus loci
	louse lice
	man men
	matrix matrices
	memorandum memoranda
	metamorphosis metamorphoses
	midwife midwives
	millennium millennia
	mouse mice
	neurosis neuroses
	nucleus nuclei
	oasis oases
	ovum ova
	ox oxen
	parenthesis parentheses
	passerby passersby
	penknife penknives
	person people
	phenomenon phenomena
	policeman policemen
	policewoman policewomen
	postman postmen
	prognosis prognoses
	quiz quizzes
	radius radii
	salesman salesmen
	salesperson salespeople
	saleswoman saleswomen
	scarf scarves
	schoolchild schoolchildren
	self selves
	shelf shelves
	snowman snowmen
	spectrum spectra
	spokesman spokesmen
	spokesperson spokespeople
	sportsman sportsmen
	stadium stadia
	stepchild stepchildren
	stimulus stimuli
	stratum strata
	syllabus syllabi
	symposium symposia
	synopsis synopses
	synthesis syntheses
	thesis theses
	thief thieves
	tooth teeth
	vertex vertices
	vortex vortices
	werewolf werewolves
	wife wives
	wolf wolves
	woman women
`

// irregular has the word of each form.
var irregular = func() map[string]string {
	words := map[string]string{}
	for line := range strings.Lines(irregularForms) {
		if group := strings.Fields(line); len(group) > 0 {
			for _, form := range group[1:] {
				words[form] = group[0]
			}
		}
	}
	return words
}()

// brokenPlurals are Arabic plurals that are made within the word, each before its singular, with the letters of
// arabicLetters and without hamza above: those of common nouns.
const brokenPlurals = `
	كتب كتاب بيوت بيت اطفال طفل اولاد ولد رجال رجل نساء امراه اصدقاء صديق ايام يوم شهور شهر اشهر شهر اسابيع اسبوع اعوام عام
	ابواب باب اقلام قلم دروس درس مدارس مدرسه مكاتب مكتب مطاعم مطعم مدن مدينه دول دوله شوارع شارع طرق طريق ادويه دواء اطباء طبيب
	امراض مرض مرضي مريض اسنان سن عيون عين ايدي يد قلوب قلب جبال جبل بحار بحر انهار نهر اشجار شجره ازهار زهره ورود ورده فواكه فاكهه
	الوان لون صور صوره افلام فيلم كلاب كلب قطط قطه طيور طائر اسماك سمكه هدايا هديه اسعار سعر ارقام رقم اسماء اسم عناوين عنوان
	رسائل رساله اخبار خبر قصص قصه افكار فكره اسئله سوال اجوبه جواب مشاكل مشكله حلول حل اعمال عمل عمال عامل طلاب طالب مفاتيح مفتاح
	حقائب حقيبه احذيه حذاء كراسي كرسي غرف غرفه نوافذ نافذه اخوه اخ اباء اب اجداد جد اعمام عم اقارب قريب جيران جار ضيوف ضيف اعياد عيد
	فنادق فندق تذاكر تذكره بنوك بنك اموال مال فواتير فاتوره عقود عقد مواعيد موعد دقائق دقيقه اجهزه جهاز برامج برنامج حواسيب حاسوب
	هواتف هاتف اكواب كوب صحون صحن سكاكين سكين ملاعق ملعقه العاب لعبه فرق فريق ملاعب ملعب متاحف متحف مساجد مسجد كنائس كنيسه
	حدائق حديقه مزارع مزرعه مصانع مصنع متاجر متجر اسواق سوق علوم علم جمل جمله حروف حرف اغاني اغنيه`

// singulars has the singular of each broken plural.
var singulars = func() map[string]string {
	words := map[string]string{}
	fields := strings.Fields(brokenPlurals)
	for i := 0; i < len(fields); i += 2 {
		words[plainArabic(fields[i])] = fields[i+1]
	}
	return words
}()

// plainArabic is an Arabic word as it is compared: without the hamza within letters.
func plainArabic(word string) string { return arabicLetters().Replace(Fold(word)) }

// regularIn returns the word whose form a word of a language is, where that is known.
func regularIn(l Language, word string) string {
	if l != Arabic {
		return word
	}
	plain := arabicLetters().Replace(word)
	for _, form := range [...]string{plain, withoutArticle(plain)} {
		if one, ok := singulars[form]; ok {
			return one
		}
	}
	return word
}
