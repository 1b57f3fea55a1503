// The project's own list of common English adjectives for needle keys: [a-z]{3,9}, sorted, none in the other list.

#include "hydrahead/data/corpora.hpp"

namespace hydra::data {

const char* const built_in_adjectives = R"(
able absent active actual acute adult advanced afraid ageless agile airy alert alive allied amazing amber ample
ancient angry annual anxious apparent apt arid armed ashen asleep aware baked bald bare barren basic beaming bearable
beautiful belated beloved bent best better big binary bitter black bland blank bleak blessed blind blond blue blunt
bold bony bored brainy brave brief bright brittle broad broken brown burly busy calm candid capable careful careless
caring central certain charming cheap cheerful cheery chief childish chilly circular civic civil classic clean clear
clever cloudy coastal cold common compact complete complex composed concise confident content cool corny correct
costly creative crimson crowded crude cruel curious curly current custom cute daily damp daring dark dashing deaf dear
decent deep definite delicate delicious dense dependent deserted devoted different difficult dim direct distant
distinct divine doubtful drab dreamy dreary dry dual dull dusty dutiful eager early earnest earthy easy edible
educated effective elderly empty endless entire equal eternal even evident exact excellent expert extinct extra
extreme faded faint fair faithful false familiar famous fancy far fast fatal fearless feathered few fierce fiery final
fine finite fit fixed flat flying fond foolish foreign formal former frail frank frantic free frequent fresh friendly
frozen full funny furry future gallant general generous genial gentle ghostly giant gifted giving glad gleaming gloomy
golden good graceful gracious gradual grand grave gray greasy great green grim guarded hairy handsome handy happy hard
hardy harmless harsh hasty healthy hearty heavenly heavy helpful hidden high holy homely honest hopeful hot huge
humane humble humid hungry hushed husky hyper ideal idle immediate immense immune imperfect important impure infinite
informal inland innate inner innocent instant intact intense intimate inward irate ironic jaded joint jolly joyful
joyous keen key kind kindly kingly knowing known labored large lasting late lawful lean learned leather left level
light likely limber limited limp linear little lively living local long loose lost loud lovely loving low lucky lush
magical major manual marine married massive mature meager mealy menacing merry messy mighty mild milky mindful
mindless minor minty misty modern modest moist momentous monthly moral motley murky mushy musical musty mute muted
mystical narrow national native natural near neat necessary needy negative nervous new nice noble notable noted novel
numb odd official oily old open orange orderly ordinary organic outer oval painful painted pale parched partial past
pastel patient peaceful perfect perky petite physical pink plain playful pleasant pleased plump plush pointed
pointless poised polished polite poor popular portable posh positive possible potable potent powerful practical
precious precise private prize probable proper proud public puny pure purple quaint quarterly quick quiet rapid rare
rash raw ready real recent reckless red refined regal regular remote required resolute restless rich ringed ripe
robust roomy rough round rude sacred sad safe salty sandy sane satisfied savory scaly scarce scared scary scented
second secret secure sensible separate serious severe shadowy shady shallow sharp shiny short showy shrill shy silent
silky silly silver similar simple sincere single skilled sleek sleepy slender slim slow small smart smiling smooth
smug snowy soaring social soft solar sole solid solitary sore sour spare special speedy spirited spiteful splendid
spotless spotted square stable stale standard stark starry static steady steel steep sticky stiff stormy straight
strange strict striking striped strong studious sudden sunny super superb superior supple surly sweet swift tall tame
tan tart tasty tattered teal temperate tender tense terrible terrific testy thankful thick thin thorough thrilling
tight timely timid tinted tiny tired torn tough trim true trusting trusty truthful twin unable uneven unfit united
unknown unsung upper upset usable useful useless usual utter vague vain valid vast virtual visible visual vital vivid
vocal warm wary watchful watery weak wealthy weary wee weekly weighty weird welcome wet white whole wicked wide wild
willing windy wise wonderful wooden wordy worldly worn worried worthy wry yearly yellow young youthful zesty
)";

}  // namespace hydra::data
