"""TensorFlow's own file system writes, reads and renames: tensorflow_files.py gs://BUCKET/FOLDER."""

import os
import sys

import tensorflow as tf

folder, body = sys.argv[1], os.urandom(3 << 20)
tf.io.gfile.makedirs(folder)
with tf.io.gfile.GFile(f"{folder}/first", "wb") as file:
    file.write(body)
tf.io.gfile.copy(f"{folder}/first", f"{folder}/one")
tf.io.gfile.rename(f"{folder}/first", f"{folder}/two")
names = sorted(tf.io.gfile.listdir(folder))
with tf.io.gfile.GFile(f"{folder}/two", "rb") as file:
    file.seek(1 << 20)
    assert file.read(1000) == body[1 << 20 :][:1000]
tf.io.gfile.rmtree(folder)
print(f"{names}, {len(tf.io.gfile.glob(folder + '/*'))} left")
