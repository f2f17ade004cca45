set -e
privgrad run manifest.yaml --out run
privgrad verify run
privgrad predict run --out predictions.csv
privgrad export run --out model.onnx
