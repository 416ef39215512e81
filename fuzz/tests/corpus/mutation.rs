//! Inputs made from others, by a generator (`SplitMix64`) that begins the same every time.

/// Longer inputs say nothing new.
const LENGTH_MAX: usize = 4096;

pub(crate) struct Mutations<'a> {
    seeds: &'a [Vec<u8>],
    state: u64,
}

impl<'a> Mutations<'a> {
    pub(crate) fn of(seeds: &'a [Vec<u8>]) -> Self {
        Self { seeds, state: 0 }
    }

    /// One input more.
    pub(crate) fn next(&mut self) -> Vec<u8> {
        let mut input = self.seed().to_vec();
        for _ in 0..=self.below(4) {
            self.mutate(&mut input);
        }
        input.truncate(LENGTH_MAX);
        input
    }

    fn mutate(&mut self, input: &mut Vec<u8>) {
        let at = self.below(input.len() + 1);
        let end = (at + 1 + self.below(16)).min(input.len());
        match self.below(6) {
            // Flips a bit.
            0 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << self.below(8);
                }
            }
            // Replaces a byte.
            1 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte = self.random() as u8;
                }
            }
            // Inserts some.
            2 => {
                let new: Vec<_> = (0..=self.below(4)).map(|_| self.random() as u8).collect();
                input.splice(at..at, new);
            }
            // Takes some away.
            3 => drop(input.drain(at..end)),
            // Repeats some elsewhere.
            4 => {
                let copied = input[at..end].to_vec();
                let to = self.below(input.len() + 1);
                input.splice(to..to, copied);
            }
            // Goes on as another seed does.
            _ => {
                let other = self.seed();
                let from = self.below(other.len() + 1);
                input.truncate(at);
                input.extend(&other[from..]);
            }
        }
    }

    fn seed(&mut self) -> &'a [u8] {
        let at = self.below(self.seeds.len());
        &self.seeds[at]
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.random() % bound as u64) as usize
    }

    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
