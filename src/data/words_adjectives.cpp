// The project's own list of common English adjectives for needle keys: [a-z]{3,9}, sorted, none in the other list.

#include "hydrahead/data/corpora.hpp"

namespace hydra::data {

const char* const built_in_adjectives = R"(
able absent abundant academic acidic active actual acute adaptive adept adequate adjacent adult advanced aerial afraid
ageless agile airy alert alive allied alpine amazing amber ample ancient angry annual antique anxious apparent apt
aquatic arctic arid armed artistic ashen asleep astute atomic attentive austere automatic average aware awesome
awkward baked bald balmy bare barren basic beaming bearable beautiful belated beloved benign bent best better big
binary bitter bizarre black bland blank bleak blessed blind blissful blond bloody blue blunt blurry bogus bold bony
bored bossy bouncy brainy brave breezy brief bright brisk bristly brittle broad broken bronze brown bruised bubbly
bulky bumpy buoyant burly busy buttery calm candid capable careful careless caring casual cautious central ceramic
certain charming cheap cheerful cheery chief childish chilly chubby circular civic civil classic clean clear clever
cloudy clumsy coarse coastal cold colorful colossal comfy common compact complete complex composed concise concrete
confident content cool copper cordial corny correct cosmic costly courteous cozy crafty crazy creamy creative crimson
crisp critical crooked crowded crucial crude cruel crunchy cubic cuddly cultural curious curly current curvy custom
cute cyan daily damp dapper daring dark dashing dazzling dead deaf dear decent decisive deep defiant definite delicate
delicious delirious dense dental dependent deserted desirable detailed devoted diagonal different difficult digital
diligent dim direct dirty discreet distant distinct diverse divine dizzy docile domestic dominant dopey dorsal dotted
doubtful drab dramatic dreamy dreary dry dual dull durable dusty dutiful dynamic eager early earnest earthy easy
eccentric ecstatic edible educated eerie effective efficient elaborate elastic elderly electric elegant elfin eligible
eloquent eminent emotional empty enchanted endless energetic enigmatic enormous entire envious equal essential eternal
ethical even evident exact excellent exotic expensive expert explicit extinct extra extreme exuberant faded faint fair
faithful false familiar famous fancy fantastic far fast fatal favorite fearless feathered feisty feline fertile
festive few fickle fierce fiery filthy final fine finite fiscal fit fixed fizzy flaky flashy flat flawless flexible
flimsy floral fluent fluffy flying foamy focal foggy fond foolish foreign formal former fragile fragrant frail frank
frantic free frequent fresh friendly frosty frozen frugal full funny furry furtive fussy future fuzzy gallant gaping
gaseous general generous genial gentle genuine ghostly giant gifted gigantic giving glad glamorous gleaming global
gloomy glorious glossy golden good gorgeous graceful gracious gradual grand grateful grave gray greasy great greedy
green grim gritty grumpy guarded guilty gullible hairy handmade handsome handy happy hard hardy harmless harsh hasty
haunting healthy hearty heavenly heavy helpful helpless hidden high hilarious historic hollow holy homely honest
honorable hopeful hot huge humane humble humid hungry hushed husky hybrid hyper icky icy ideal identical idle ignorant
illegal immediate immense imminent immune impartial imperfect important impure inborn indigo infamous infinite
informal inland innate inner innocent insistent instant intact intense internal intimate intrepid inventive invisible
inward irate ironic itchy ivory jaded jagged jaunty jealous jittery joint jolly jovial joyful joyous jubilant juicy
jumbo junior juvenile keen key kind kindly kingly knotty knowing known labored laconic large lasting late latent
lavish lawful lazy leafy lean learned leather left legal lenient level liable liberal lifeless light likable likely
limber limited limp linear liquid literal little lively living local logical lonely long loose lopsided lost loud
lovely loving low loyal lucid lucky luminous lumpy lunar lush luxurious magical magnetic main majestic major mammoth
mandatory manual marine married marvelous massive mature meager mealy meaty mediocre mellow melodic memorable menacing
merry messy metallic mighty mild milky mindful mindless minor minty misty mixed mobile modern modest moist molten
momentous monthly moody moral motley muddy muffled multiple mundane murky muscular mushy musical musty mute muted
mystical naive narrow nasty national native natural naughty nautical near neat necessary needy negative nervous
neutral new nice nimble nippy noble nocturnal noisy nomadic normal northern notable noted novel numb numeric nutty
obedient oblong obscure obvious oceanic odd offbeat official oily old onerous only open optimal opulent orange orderly
ordinary organic ornate ornery outer outgoing oval overdue painful painted pale paltry parallel parched partial past
pastel patchy patient peaceful peppery perfect perky petite physical piercing pink placid plain planetary plastic
playful pleasant pleased plucky plump plush pointed pointless poised polished polite pompous poor popular portable
posh positive possible potable potent powdery powerful practical precious precise prickly primal primary pristine
private prize probable prominent proper proud prudent public pungent puny pure purple puzzled quaint qualified
quarterly queasy quick quiet quirky quixotic radiant ragged rapid rare rash raspy raw ready real rebel recent reckless
red refined regal regular reliable relieved remote repentant required resolute restless rich rigid ringed ripe roasted
robust romantic roomy rosy rotating rotten rough round rowdy royal rubbery ruddy rude rural rustic rusty ruthless
sacred sad safe salty same sandy sane sarcastic sardonic satisfied savory scaly scarce scared scary scenic scented
scholarly scrawny secluded second secret secure selfish senior sensible separate serene serious severe shabby shadowy
shady shallow sharp shiny shocking short showy shrill shy sick silent silky silly silver similar simple sincere single
skeletal skilled skinny sleek sleepy slender slim slimy slippery slow sluggish small smart smiling smoggy smooth smug
snappy sneaky snowy soaring social soft soggy solar sole solid solitary somber sophomore sore sour southern spare
sparkling sparse special speedy spherical spicy spiffy spirited spiteful splendid spotless spotted square squeaky
stable stale standard stark starry static steady steel steep sticky stiff stingy stormy straight strange strict
striking striped strong studious stunning sturdy stylish subtle suburban sudden sugary sunny super superb superior
supple supreme surly svelte sweet swift tall tame tan tangible tart tasty tattered tawny teal tedious temperate
tempting tender tense tepid terrible terrific testy thankful thick thin thirsty thorny thorough thrifty thrilling tidy
tight timely timid tinted tiny tired torn total tough tragic tranquil tricky trim trivial tropical true trusting
trusty truthful turbulent twin typical ugly ultimate unable uncommon uneven unfit uniform unique united universal
unknown unlikely unlined unruly unsung untidy unusual upbeat upper uppity upset urban urgent usable useful useless
usual utopian utter vacant vague vain valiant valid valuable vapid variable vast velvety venerated vengeful verbal
vibrant vicious vigilant vigorous violet virtual visible visual vital vivid vocal volatile warm wary wasteful watchful
watery wavy weak wealthy weary webbed wee weekly weighty weird welcome western wet white whole wicked wide wiggly wild
willing wilted windy winged wiry wise wistful witty wobbly woeful wonderful wooden woozy wordy worldly worn worried
worthy wry yawning yearly yellow young youthful yummy zany zealous zesty zigzag zippy
)";

}  // namespace hydra::data
