# Code that the scripts of all peers need, written once but counted for each: images in [0, 1], and
# labels.
import gzip

import numpy


def images(file):
    numbers = numpy.frombuffer(gzip.open(file).read(), numpy.uint8, offset=16)
    return numbers.reshape(-1, 28, 28).astype("float32") / 255


def labels(file):
    return numpy.frombuffer(gzip.open(file).read(), numpy.uint8, offset=8).astype("int64")
