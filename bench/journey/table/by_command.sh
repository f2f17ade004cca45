set -e
privgrad run manifest.yaml --out run
privgrad verify run
privgrad predict run --data '{kind: csv, train: test.csv, unlabelled: true}' --keep id --out predictions.csv
privgrad export run --out model.onnx
