import dp_accounting
import jax
import numpy
import optax
import pandas
from features import features
from jax_privacy import batch_selection
from jax_privacy.experimental import execution_plan

table = pandas.read_csv("train.csv")
rows = features(table)
labels = (table["readmitted"] == "yes").to_numpy().astype("int32")
plan = execution_plan.BandMFExecutionPlanConfig.default(
    num_bands=1, iterations=100, epsilon=1, delta=1e-5, sampling_prob=0.1, normalize_by=600,
    partition_type=batch_selection.PartitionType.INDEPENDENT,
    accountant=dp_accounting.pld.PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)).plan


def loss(model, batch, targets):
    return optax.softmax_cross_entropy_with_integer_labels(batch @ model["weights"] + model["bias"], targets).mean()


model = {"weights": jax.numpy.zeros((rows.shape[1], 2)), "bias": jax.numpy.zeros(2)}
gradient = jax.jit(plan.clipped_grad(loss, batch_argnums=(1, 2)))
optimizer = optax.sgd(1.0, momentum=0.9)
state, noise = optimizer.init(model), plan.noise_addition_transform.init(model)
for chosen in plan.batch_selection_strategy.batch_iterator(len(rows)):
    padded = batch_selection.pad_to_multiple_of(chosen, 100)
    private, noise = plan.noise_addition_transform.update(
        gradient(model, rows[padded], labels[padded], is_padding_example=padded == -1), noise)
    updates, state = optimizer.update(private, state)
    model = optax.apply_updates(model, updates)
test = pandas.read_csv("test.csv")
chosen = (features(test) @ model["weights"] + model["bias"]).argmax(axis=1)
pandas.DataFrame({"id": test["id"], "class": numpy.array(["no", "yes"])[chosen]}).to_csv("predictions.csv", index=False)
