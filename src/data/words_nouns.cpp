// The project's own list of common English nouns for needle keys: [a-z]{3,9}, sorted, none in the other list.

#include "hydrahead/data/corpora.hpp"

namespace hydra::data {

const char* const built_in_nouns = R"(
ability abode acid acorn acre action actor actress affair agency agent aide air alder alley ambition amount anchor
angel anger angle ankle ant antler ape apple apron arch archer archive area arena arm army arrow artist asset atom
attic attitude auction aunt avenue award axe axis axle baboon baby bacon badge badger bagel bakery balance ball ballad
ballet balloon ballot bamboo band bandage bandit banjo bank banker banner barber bargain barge bark barley barn barrel
base basement basin basket bass bat bath baton battery battle bay beach bead beak beam bean bear beard beast beat bed
bedroom bee beech beef beet belief bell belly belt bench berry bike bill bin binder birch bird birth birthday biscuit
bishop bison blade blast blender blimp block blouse boar board boat body bolt bomb bond bone bonus book boot booth
border boss bottle bottom boulder boundary bow bowl box boxer boy bracelet braid brain brake branch brass bread breath
breeze brewery brick bride bridge broker brook broom brother brush bubble bucket buckle bud budget buffet bug buggy
bulb bull bullet bumper bunch bundle bunker buoy burger burrow bus bush business butcher butler butter button buzzard
cabin cable cactus cafe cage cake calf camel camp canal canary cancer candle candy cane cannon canoe cap capital
captain car card career cargo carnival carpet carriage carrot cart cartoon carving case cash cast castle cat cattle
cause cave cavern ceiling cell cellar cello cement census center century chain chair chamber chance chapter charity
chart check cheek cherry chess chest child chin choir chord church cider cigar circle circuit circus city clam class
claw clay client cliff climate clip clock cloth cloud clove clover clown club coach coal coast coat cobra code coffee
coffin coil coin collar colony color comb comet comfort comic command comment community companion company compass
concept condition condor cone congress contest contract cook cookie coral cord core cork corn corner costume cottage
cotton couch cougar council counter country county couple courage course court cousin cover cow coyote crab craft
crane crate crater crayon cream creator creature credit creek crest crew crime crop cross crow crowd crown crumb crust
cub cube cuckoo cuff cult culture cup cupboard curb cure curry curve cushion customer cycle dad dagger dairy dam dance
dancer danger dart data date daughter dawn day dealer death decade decision deck deer defense degree delta demand den
denim dentist depot desert design desk dessert device dew dial dialect diary dictator diet diner dinghy dining dinner
dirt disaster disc disease dish disk distance ditch diver division doctor document dog doll dollar dome domino donkey
donor door doorway dose double dough dove drain drawing dream dress dresser drill drink driver drum duck duel duet
duke dune dusk dust duty ear earth east echo edge edition eel egg elf elk elm ember emotion emu energy engine era
error essay estate event evidence exam exile exit eye fabric face fact factory faculty failure fairy falcon fall fame
family fan fang farm farmer fashion father fawn feast feather feature fence fennel fern ferret ferry festival fever
fiber fiction fiddle field fig fight figure file film filter finance finger fire fish fist flag flame flask flea fleet
flesh flight flock flood floor flour flower fluid flute fly foal fog folder food foot force forehead forest forge fork
form fort fortress fortune forum fossil foundry fountain fox foyer fragment frame freedom freight friend frog frost
fruit fudge fuel function fund fungus fur furnace gadget gale gallery gallon gambler game gander garage garden
gardener garlic garment garnet gas gate gateway gear gem gender gene genius genre ghost ginger girl glade glass glory
glove glue goal goat goblin gold golf goose gopher gossip governor gown grain grape graph grass gravel grid grill
groom ground grove growth guard guest guide guild guitar gulf gull gum gutter gym habit habitat hail hair haircut hall
hallway halo ham hammer hamster hand handle hangar hare harness harp hat hawk hay hazel head headband health heap
heart hearth heat heather heaven hedge heel height heir help herb herd hermit hero heron highland highway hiker hill
hinge hip hippo history hobby hockey hole home honey honor hood hoof hook horn hornet horse hose hospital host hostel
hotel hour house household hub hull human humor hunger hunter hurdle hut hyena ice icon idea identity image impact
inch incident income index infant ink inlet inn insect instinct interest invention iris iron island issue item jade
jail jam jar jaw jay jet job joke joy jug jury kale keyboard king kingdom kiss kite kitten knife knight knitting knob
knock knot label labor lace lad ladder ladle lady lagoon lake lamb lamp lance land lane language lantern lap laptop
larch lard lark laser lasso latch laughter lava lavender law lawn layer lead leaf league leash lecture leek lemon
length lens lesson letter lever license lid life lilac lily lime limit line linen liner lion lip list liter litter
liver lizard load loaf loan lobby lobster location lock locker locket locust lodge loft log logic loop lord lotion
lotus lounge love lumber lunch lung lute luxury lyric machine magic maid maker mall mallet manager mango manor mansion
mantle map maple marble march margin market marlin marsh martin mask mason mast master mat match material math matter
mattress mayor maze meal measure meat medal media melody melon member memo memory menu merchant message metal meteor
meter method metro midnight milk mill miller mind mine minister mink mint minute miracle mirror mischief missile
mission mist mistake mitten mixer moat model mole moment monarch money mongoose monk monkey monsoon monster month
monument mood moon moose mop morning mosque moss motel moth mother motion motor mountain mouse mouth movement movie
mud muffin mug mule muscle museum mushroom music mustard myth nail name nap napkin nation nature navy neck nectar
nerve nest net nettle niece night noise noodle noon north nose note notion nurse nursery nut oak oar oat object oboe
odor offer office oil ointment olive omelet onion onyx opal order ore organ ornament otter ounce outcome oven owl
owner oyster pace pack package pad paddle page pail pain paint painter painting pair palace palm pan pancake panda
panel panic pansy panther pants paper parade parent park parking parrot parsley part partner party passage passion
pasta paste pastry pasture patch path patio patrol pattern pavement paw payment pea peace peach peak pear pedal peel
pen pencil pendant penny people permit person petal phantom phone physics piano pickle picture pie piece pier pig pile
pillar pillow pilot pin pine pint pioneer pipe pirate pit pitcher place plane plank plant plate play plot plow plum
pocket podium poem poet point poison poker pole police polish pollen pond pony pool porch pork port porter portion
poster pot potter pouch pound powder power presence president press price priest prince prison process produce product
project proof prophet prune pub pudding puddle pulley pulse puma pump pumpkin pupil puppet puppy purse puzzle quail
quality quart queen quest quill quilt quiver quiz quote race rack raft rag rail railing rain rake rally ramp ranch
ranger rank rat rattle raven ray reader reason reed reef reform region rein relation relative relay relic rent reserve
resident rest result retreat reward rib rice riddle rider ridge rifle ring rink riot river road roast robe rock rod
role roof room root rope rose roster rover rug ruin sack saddle sail sailor saint salad salary sale salmon salon salt
sample sand sandal sardine satin sauce saw scale scar scene scent school science scientist score scout screw script
sea seal search season seat section sector seed segment senate senator sensor sentence sequence series server session
shade shape shark shed sheep sheet shelf shell shelter sheriff shield shin ship shirt shock shoe shop shore show
shower sibling siege sign signal signature silence silk sink siren sister site skate ski skier skill skin skirt skunk
sky skylight slate sled sleep sleigh slice slide slope sloth slug smile smith smoke snack snail snake sneaker snow
snowman soap society sock soda soil soldier solution son song sorrow soul sound soup source south spade spark sparrow
speaker spear speech speed spell sphere spice spider spike spine spiral spirit spoon sport spot spray spring sprout
spy squad squash squid stadium staff stage stair stallion stamp star start statement station statue steak steam stem
step stereo stew steward stick stitch stock stocking stomach stone stool store stork storm story stove stranger strap
straw stream street stretcher string structure student studio study style subject subway sugar suit sulfur sultan
summer summit sun sunset supper supply support surf surgery surname survey suspect swamp swan sweater swing sword
system table tablet tackle tail tailor talent tangerine tank tape tapir target tariff task taste tavern tax taxi tea
teacher team temper temple tenant tent term terrace test text theater theme theory thief thigh thing thorn thought
thread thumb thunder ticket tide tie tiger tile timber time tin tip tire tissue title toad toast toaster toe toffee
ton tongue tool tooth topaz topic torch touch tour tourist towel tower town toy track tractor trade trail train trait
tram trap travel traveler tray treasure treaty tree trend trial tribe trio trip trophy trouble trout trowel truck
trunk truth tub tuba tube tulip tuna tundra turkey turnip turret tutor tweed twig umpire uncle union unit urchin urn
user valley value valve van vase veil vein venture verse vessel vest view vine vision vote wader wafer waffle wage
wagon waist waiter wall wallet wand wasp watch water wave wax wealth weather wedding wedge weed week weight wharf
wheat wheel widow width wife willow winch wind window wine wing winner winter wire wisdom witness wizard wolf woman
wombat wonder wood wool word work worker world worm wreath wrench wrestler wrist writer yak yam yard yarn year yeast
youth zone zoo
)";

}  // namespace hydra::data
