import dp_accounting
import jax
import optax
import pandas
from images import images, labels
from jax_privacy import batch_selection
from jax_privacy.experimental import execution_plan

rows = images("train-images-idx3-ubyte.gz")[..., None]
targets = labels("train-labels-idx1-ubyte.gz")
plan = execution_plan.BandMFExecutionPlanConfig.default(
    num_bands=1, iterations=450, epsilon=3, delta=1e-5, sampling_prob=1024 / 60000, normalize_by=1024, l2_clip_norm=0.1,
    partition_type=batch_selection.PartitionType.INDEPENDENT,
    accountant=dp_accounting.pld.PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)).plan


def convolve(inputs, kernel, bias, padding):
    made = jax.lax.conv_general_dilated(inputs, kernel, (2, 2), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return jax.lax.reduce_window(jax.numpy.tanh(made + bias), -jax.numpy.inf, jax.lax.max, (1, 2, 2, 1), (1, 1, 1, 1), "VALID")


def network(model, inputs):
    inputs = convolve(inputs, model["kernel 1"], model["bias 1"], ((3, 3), (3, 3)))
    inputs = convolve(inputs, model["kernel 2"], model["bias 2"], "VALID").reshape(len(inputs), -1)
    return jax.numpy.tanh(inputs @ model["weights 3"] + model["bias 3"]) @ model["weights 4"] + model["bias 4"]


def loss(model, batch, wanted):
    return optax.softmax_cross_entropy_with_integer_labels(network(model, batch), wanted).mean()


shapes = {"kernel 1": (8, 8, 1, 16), "kernel 2": (4, 4, 16, 32), "weights 3": (512, 32), "weights 4": (32, 10)}
keys = jax.random.split(jax.random.key(1), len(shapes))
model = {name: jax.nn.initializers.glorot_uniform()(key, shape) for key, (name, shape) in zip(keys, shapes.items())}
model |= {"bias " + name[-1]: jax.numpy.zeros(shape[-1]) for name, shape in shapes.items()}
gradient = jax.jit(plan.clipped_grad(loss, batch_argnums=(1, 2)))
optimizer = optax.sgd(0.4, momentum=0.9)
state, noise = optimizer.init(model), plan.noise_addition_transform.init(model)
for chosen in plan.batch_selection_strategy.batch_iterator(len(rows)):
    padded = batch_selection.pad_to_multiple_of(chosen, 128)
    private, noise = plan.noise_addition_transform.update(
        gradient(model, rows[padded], targets[padded], is_padding_example=padded == -1), noise)
    updates, state = optimizer.update(private, state)
    model = optax.apply_updates(model, updates)
chosen = network(model, images("t10k-images-idx3-ubyte.gz")[..., None]).argmax(axis=1)
pandas.DataFrame({"class": chosen}).to_csv("predictions.csv", index=False)
