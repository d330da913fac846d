"""The table fitted in Opacus, in a cold process: a linear layer, its privacy engine, four epochs of batches of 300."""

import sys
import warnings

import fit_task
import numpy as np
import opacus
import torch

BATCH, EPOCHS, STEP_SIZE, CLIP_NORM = 300, 4, 2.0, 1.0

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    X, y, X_test, y_test = fit_task.read(sys.argv[1])
    rows = torch.utils.data.TensorDataset(torch.tensor(X, dtype=torch.float32), torch.tensor(y, dtype=torch.float32))
    layer = torch.nn.Linear(fit_task.FEATURES, 1)
    module, optimiser, loader = opacus.PrivacyEngine().make_private_with_epsilon(
        module=layer,
        optimizer=torch.optim.SGD(layer.parameters(), lr=STEP_SIZE),
        data_loader=torch.utils.data.DataLoader(rows, batch_size=BATCH),
        target_epsilon=fit_task.EPSILON,
        target_delta=fit_task.DELTA,
        epochs=EPOCHS,
        max_grad_norm=CLIP_NORM,
    )
    criterion = torch.nn.BCEWithLogitsLoss()
    for _ in range(EPOCHS):
        for features, classes in loader:
            optimiser.zero_grad(set_to_none=True)
            criterion(module(features)[:, 0], classes).backward()
            optimiser.step()
    with torch.no_grad():
        scores = module(torch.tensor(X_test, dtype=torch.float32))[:, 0].numpy()
    versions = {"opacus": opacus.__version__, "torch": torch.__version__, "numpy": np.__version__}
    fit_task.report(scores > 0, y_test, versions)
