# The rooms of the framework, and which other rooms each may see: by include, and by link. framework/README.md draws it.
set(rooms sdk conformance trust trust_testing manifest pipeline statistics studies report host calls use)

set(sees_sdk "")
set(sees_conformance sdk)
set(sees_trust sdk)
# In the folder of trust, and made of its private header.
set(sees_trust_testing trust sdk)
set(sees_manifest trust sdk)
set(sees_pipeline manifest trust sdk)
set(sees_statistics "")
set(sees_studies pipeline manifest trust sdk statistics)
set(sees_report manifest trust sdk statistics)
set(sees_host sdk)
set(sees_calls studies report host pipeline manifest trust sdk statistics)
set(sees_use pipeline manifest trust sdk host)
set(sees_plugins sdk)  # each of them

# Where each keeps the headers that others may include.
set(headers_of_sdk framework/sdk/include/privgrad)
set(headers_of_conformance framework/sdk/testing/include/privgrad/testing)
set(headers_of_trust framework/trust/include/privgrad/trust)
set(headers_of_trust_testing framework/trust/testing/include/privgrad/trust)
set(headers_of_manifest framework/manifest/include/privgrad/manifest)
set(headers_of_pipeline framework/pipeline/include/privgrad/pipeline)
set(headers_of_statistics framework/studies/statistics/include/privgrad/statistics)
set(headers_of_studies framework/studies/include/privgrad/studies)
set(headers_of_report framework/report/include/privgrad/report)
set(headers_of_host framework/host/include/privgrad/host)
set(headers_of_calls framework/calls/include/privgrad/calls)
set(headers_of_use framework/use/include/privgrad/use)
