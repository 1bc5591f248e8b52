package mention

import "strings"

// The words by which Rules judges, folded.
var (
	titles    = set(`mr mrs ms miss dr prof professor sir madam lady lord captain sergeant president king queen prince princess pope saint`)
	greetings = set(`hey hi hello dear thanks congrats congratulations bye goodbye welcome`)
	// joints stand between the words of a name.
	joints = set(`of the de la van von der den du da di del bin al`)
	// smallWords are those of a title that need no capital.
	smallWords = set(`a an the and or of in on at to for from with by is it as vs v de la le les el`)
	// within stands before a place.
	within = set(`in near visit visited visiting across towards around via outside throughout toward explore explored exploring`)
	// motion stands before "to" and a place, fromPlace before "from" and one.
	motion = set(`go goes going gone went move moves moved moving trip trips travel travels traveled travelled traveling travelling
		fly flew flying flight drive drove driving drove back return returned returning relocate relocated been trek journey visit visits
		tour ride off headed heading head sail sailed home road ticket tickets`)
	fromPlace = set(`come comes came coming am is are i'm he's she's they're originally hail hails back city town capital people state`)
	bodies    = set(`inc ltd llc gmbh corp corporation company university college school bank institute foundation hospital association club
		church committee ministry department council agency society museum library party team studios records academy orchestra airlines
		motors systems labs technologies pharmaceuticals group activists center centre league federation union brewery`)
	places = set(`street avenue road park lake river mountain mountains island islands beach city county valley airport station square
		bridge bay hill hills forest canyon village town state falls ocean sea coast desert peninsula gulf cape tower castle palace springs
		creek glacier gardens harbor harbour heights ridge plaza cathedral temple`)
	placesFirst = set(`lake mount mt fort san santa los las port cape rio`)
	events      = set(`day month week fest festival cup marathon parade olympics championship championships bowl games awards summit expo
		conference convention eve pride war gala con prix`)
	// tells follow the name of a person: what persons do. weakTells do things, too.
	tells = set(`said says told tells asked asks thinks thought likes liked loves loved wants wanted hates hated lives lived works worked
		moved went goes came comes knows knew met has had is was will prefers preferred bought made got gave took started plays played
		studies studied teaches taught married visited called wrote writes reads helped feels felt`)
	weakTells = set(`is was has had will made got gave took started works worked helped came comes goes went plays played called`)
	// workWords stand before what is read, watched, heard or played.
	workWords = set(`read reading watch watched watching playing play played book books novel movie movies film series song album game games
		show called titled`)
	workVerbs     = set(`work works worked working job intern interned interning employed interview interviewed hired`)
	languageVerbs = set(`learn learning learned speak speaks speaking spoke study studying studied teach teaching taught in understand know took
		take taking fluent practice practicing`)
	nations = set(`american british english french german spanish italian irish scottish welsh dutch belgian swiss austrian swedish norwegian
		danish finnish polish czech hungarian romanian bulgarian greek turkish russian ukrainian chinese japanese korean vietnamese thai
		indian pakistani iranian persian iraqi israeli hebrew arabic egyptian moroccan nigerian kenyan ethiopian african asian european
		australian canadian mexican brazilian portuguese argentinian chilean colombian peruvian cuban jamaican latin hawaiian californian
		midwestern southern northern western eastern mediterranean scandinavian caribbean christian muslim jewish buddhist hindu catholic
		victorian gothic nordic celtic mandarin cantonese`)
	// acronyms are no names, though they have capitals.
	acronyms = set(`btw lol omg fyi diy diys asap aka imo imho tbh idk np rip faq pdf id ok okay am pm ad bc usd eur ps pps ceo cto cfo phd mba
		bbq pj pjs rsvp eta etc irl bff bffs ily ty yw wtf smh ootd vip tba tbd atm r&r q&a hr pr pov gg`)
	// strongWords are common words that are given names, too, and begin with a capital for other reasons.
	strongWords = set(`may april june august summer autumn winter spring sunday friday art king queen prince duke earl major sir sky star stone
		ray heaven angel baby royal true love hope faith joy honor honey genesis trinity journey haven destiny case max early christmas best
		young long short brown green white black gray grey blue red wood woods field lake river ocean storm rain snow north west east an so do
		see many an so in ever in my ace day dream treasure golden silver ruby jade pearl jewel chance justice reason price blessing`)
	// notNames begin sentences with a capital, or have one without being a name.
	notNames = set(`i i'm i've i'd i'll it's that's there's what's let's you're we're they're he's she's don't didn't can't won't isn't
		a an the this that these those my your his her its our their he it she we you they me us him them mine yours ours theirs
		and or but so if when where who what which why how while because since after before then than though although once until whenever
		yes no not yeah yep yup yea nope nah ok okay well oh wow hey hi hello dear thanks thank please sorry sure great good nice cool awesome
		amazing absolutely definitely exactly totally really maybe perhaps actually also just still even only now today tomorrow
		yesterday tonight here there always never often sometimes recently lately finally hopefully fortunately unfortunately
		is are was were am be been do does did have has had can could will would shall should may might must
		in on at by for from to of with without about as into over under between during through out up down off again
		all any both each few many more most much other some such one two three first second last next every another
		monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays fridays saturdays sundays
		mon tue tues wed thu thur thurs fri sat sun
		january february march april june july august september october november december jan feb mar apr jun jul aug sep sept oct nov dec
		congrats congratulations bye goodbye welcome glad happy excited good haha hahaha ha lol omg aw aww awww ah ahh um hmm mm mmm yo woah whoa
		woohoo woo yay ugh oof ouch phew gosh geez dang damn cheers hurray hooray bravo yum yummy gonna wanna gotta kinda sorta
		keep take make let go come get see look think know hope wish remember sounds looks seems feel looking going having being
		speaking talking thinking guess don anyway anyways besides however instead meanwhile otherwise plus
		everyone everybody someone somebody anyone anybody something anything nothing everything nobody
		mom mum mommy dad daddy grandma grandpa granny god lord jesus`)
)

// famous are names that most people know, and what they are; lists/README.md has longer lists.
var famous = func() map[string]string {
	m := map[string]string{}
	add := func(typ, names string) {
		for n := range strings.SplitSeq(names, ",") {
			m[strings.Join(strings.Fields(n), " ")] = typ
		}
	}
	add(body, `google,microsoft,apple inc,amazon,facebook,meta,netflix,twitter,openai,anthropic,ibm,intel,nvidia,samsung,sony,nintendo,sega,
		adobe,oracle,salesforce,spotify,uber,lyft,airbnb,paypal,tesla,toyota,honda,ford,bmw,mercedes,volkswagen,audi,porsche,ferrari,nissan,
		hyundai,boeing,airbus,nasa,spacex,fbi,cia,nsa,un,unesco,unicef,nato,eu,european union,united nations,red cross,greenpeace,
		nba,nfl,mlb,nhl,fifa,uefa,ncaa,wnba,espn,cnn,bbc,nbc,cbs,abc,hbo,fox news,new york times,nike,adidas,puma,reebok,under armour,
		gatorade,pepsi,coca-cola,coca cola,starbucks,mcdonald's,mcdonalds,burger king,subway,kfc,walmart,target,costco,ikea,h&m,zara,gucci,prada,
		chanel,disney,pixar,marvel,warner bros,paramount,dreamworks,harvard,yale,princeton,stanford,mit,oxford university,cambridge university,
		berkeley,caltech,ucla,nyu,doordash,door dash,ebay,etsy,shopify,target,visa,mastercard,goldman sachs,jp morgan,deloitte,mckinsey,
		lakers,yankees,red sox,dodgers,cowboys,patriots,packers,warriors,celtics,knicks,real madrid,manchester united,arsenal,liverpool fc,
		fc barcelona,bayern munich,juventus,peace corps,habitat for humanity,salvation army,ymca,rotary club,boy scouts,girl scouts`)
	add("technology", `youtube,instagram,tiktok,whatsapp,snapchat,linkedin,pinterest,reddit,discord,zoom,slack,github,gitlab,python,java,
		javascript,typescript,rust,golang,kubernetes,docker,linux,windows,macos,android,ios,bluetooth,wifi,wi-fi,usb,postgres,postgresql,mysql,
		sqlite,mongodb,redis,react,django,pytorch,tensorflow,ai,gps,vr,ar,chatgpt,excel,photoshop,powerpoint,html,css,sql,aws,azure,bitcoin,
		ethereum,blockchain`)
	add(product, `iphone,ipad,macbook,imac,airpods,kindle,alexa,siri,playstation,xbox,nintendo switch,game boy,wii,steam deck,monopoly,scrabble,
		catan,chess,dungeons & dragons,minecraft,fortnite,valorant,overwatch,league of legends,counter-strike,call of duty,zelda,super mario,
		tetris,pokemon,star wars,star trek,harry potter,game of thrones,the hobbit,hobbit,lord of the rings,the lord of the rings,the matrix,
		matrix,titanic,inception,avatar,jurassic park,the godfather,stranger things,breaking bad,the simpsons,simpsons,sherlock holmes,
		don quixote,hamlet,odyssey,iliad,narnia,hunger games,twilight,frozen,lion king,toy story,lego,barbie,photoshop`)
	add(event, `christmas,thanksgiving,easter,halloween,hanukkah,ramadan,eid,diwali,new year,new year's,new year's eve,new years,valentine's day,
		mother's day,father's day,independence day,memorial day,labor day,black friday,super bowl,world cup,olympics,world series,oscars,grammys,
		burning man,coachella,mardi gras,oktoberfest,world war ii,world war i,wwii,comic con,comic-con,earth day,pride month,lunar new year,
		chinese new year,st. patrick's day,passover,yom kippur,rosh hashanah,kwanzaa`)
	return m
}()

func set(words string) map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		m[w] = true
	}
	return m
}
