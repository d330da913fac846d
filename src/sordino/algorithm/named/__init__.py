"""Named chains: the papers' own parameters in, one `Spec` out. None has a kernel of its own."""

from sordino.algorithm.named.descent import dp_sgd as dp_sgd
from sordino.algorithm.named.descent import heavy_tailed_sgd as heavy_tailed_sgd
from sordino.algorithm.named.descent import noisy_gd as noisy_gd
from sordino.algorithm.named.descent import noisy_sgd as noisy_sgd
from sordino.algorithm.named.langevin import clipped_sgld as clipped_sgld
from sordino.algorithm.named.langevin import cyclic_sgld as cyclic_sgld
from sordino.algorithm.named.langevin import sgld as sgld
from sordino.algorithm.named.langevin import ula as ula
